"""Pipeline files that several suites run."""
import json


def write(folder, name="pipeline.yaml", **content):
    """Writes a pipeline file; JSON is YAML."""
    path = folder / name
    path.write_text(json.dumps(content, indent=1, default=str))
    return path


def catalogue(folder, image, threshold=30, radius=5, sigma=1.5, colour=True, zarr_format=3, chunks=None, **top):
    """The main job: (colour mean ->) gaussian -> sources, both stored under `out`."""
    step_chunks = {} if chunks is None else {"chunks": list(chunks)}
    steps = {}
    if colour:
        steps["grey"] = {"call": "mean", "args": ["image"], "params": {"axis": 2}}
    steps["smooth"] = {"call": "filter.gaussian", "args": ["grey" if colour else "image"], "params": {"sigma": sigma},
                       **step_chunks}
    steps["sources"] = {"call": "sky.sources", "args": ["smooth"], "params": {"threshold": threshold, "radius": radius},
                        **step_chunks}
    store = {step: {"path": f"out/{step}.zarr", "format": zarr_format} for step in ("smooth", "sources")}
    return write(folder, arrays={"image": str(image)}, steps=steps, store=store, **top)
