"""One row of bench/storage/run.py by another implementation.   others.py TOOL THREADS ROW ARRAY [COPY]"""
import concurrent.futures
import itertools
import sys

import numpy as np

tool, threads, row, path = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]


def opened(where, like=None):
    if tool == "tensorstore":
        import tensorstore as ts
        context = ts.Context({"data_copy_concurrency": {"limit": threads}, "file_io_concurrency": {"limit": threads}})
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": where}}
        if like is None:
            return ts.open(spec, context=context).result()
        return ts.open({**spec, "metadata": like.spec().to_json()["metadata"]}, create=True, context=context).result()
    import zarr
    if tool == "zarrs":
        import zarrs  # noqa: F401
        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "threading.max_workers": threads})
    else:
        zarr.config.set({"threading.max_workers": threads, "async.concurrency": threads})
    if like is None:
        return zarr.open_array(store=where, mode="r")
    return zarr.create_array(store=where, shape=like.shape, chunks=like.chunks, shards=like.shards, dtype=like.dtype,
                             compressors=like.compressors, fill_value=0)


def values(array, key=Ellipsis):
    return array[key].read().result() if tool == "tensorstore" else array[key]


array = opened(path)
if tool == "tensorstore":
    outer, inner = array.chunk_layout.write_chunk.shape, array.chunk_layout.read_chunk.shape
else:
    outer, inner = array.shards or array.chunks, array.chunks
boxes = lambda extents: [tuple(slice(o, min(o + e, s)) for o, e, s in zip(origin, extents, array.shape))  # noqa: E731
                         for origin in itertools.product(*(range(0, s, e) for s, e in zip(array.shape, extents)))]
total = lambda part: int(part.sum(dtype=np.uint64))  # noqa: E731
if row == "read_all":
    print(total(values(array)))
elif row == "copy":  # in one call, as the tool does it best
    copy = opened(sys.argv[5], array)
    if tool == "tensorstore":
        copy.write(array).result()
    else:
        copy[...] = array[...]
    print(0)
elif row == "round_trip":
    copy = opened(sys.argv[5], array)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        def work(box):
            if tool == "tensorstore":
                copy[box].write(values(array, box)).result()
            else:
                copy[box] = values(array, box)
        list(pool.map(work, boxes(outer)))
    print(0)
else:
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        print(sum(pool.map(lambda box: total(values(array, box)), boxes(outer if row == "by_chunk" else inner))))
