// z5's C++ headers at work, in a program of their own: they are a peer, not a part. test_z5.py builds it.
//   z5_peer write FOLDER KEY FORMAT DTYPE COMPRESSION SHARDED   from standard input: a (13, 9, 10) array
//   z5_peer read FOLDER KEY                                     to standard output
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>
#include <z5/factory.hxx>
#include <z5/multiarray/array_access.hxx>

namespace {

template <class T>
void read(const z5::Dataset& dataset) {
  std::vector<T> values(dataset.size());
  const z5::types::ShapeType origin(dataset.dimension(), 0);
  z5::multiarray::ArrayView<T> view(values.data(), dataset.shape(), z5::multiarray::cOrderStrides(dataset.shape()));
  z5::multiarray::readSubarray<T>(dataset, view, origin.begin());
  std::fwrite(values.data(), sizeof(T), values.size(), stdout);
}

template <class T>
void write(const z5::Dataset& dataset) {
  std::vector<T> values(dataset.size());
  if (std::fread(values.data(), sizeof(T), values.size(), stdin) != values.size()) std::abort();
  const z5::types::ShapeType origin(dataset.dimension(), 0);
  const z5::multiarray::ConstArrayView<T> view(values.data(), dataset.shape(),
                                               z5::multiarray::cOrderStrides(dataset.shape()));
  z5::multiarray::writeSubarray<T>(dataset, view, origin.begin());
}

template <class T>
void work(const z5::Dataset& dataset, bool reading) {
  if (reading)
    read<T>(dataset);
  else
    write<T>(dataset);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const bool reading = std::string(argv[1]) == "read";
  try {
    const z5::filesystem::handle::File file(argv[2]);
    std::unique_ptr<z5::Dataset> dataset;
    if (reading) {
      dataset = z5::openDataset(file, argv[3]);
    } else {
      const int format = std::atoi(argv[4]);
      if (!file.exists()) z5::createFile(file, true, format);
      const z5::types::ShapeType shards =
          std::atoi(argv[7]) != 0 ? z5::types::ShapeType{10, 8, 10} : z5::types::ShapeType{};
      // z5's default in format 3 is a zlib stream under the name gzip; z5py asks for gzip, as is done here.
      z5::types::CompressionOptions options;
      if (std::string(argv[6]) == "gzip") options["useZlib"] = false;
      dataset = z5::createDataset(file, argv[3], argv[5], {13, 9, 10}, {5, 4, 5}, argv[6], options, 0,
                                  format == 3 ? "/" : ".", format, "default", shards);
    }
    switch (dataset->getDtype()) {
      case z5::types::int8:
        work<std::int8_t>(*dataset, reading);
        break;
      case z5::types::uint8:
        work<std::uint8_t>(*dataset, reading);
        break;
      case z5::types::int16:
        work<std::int16_t>(*dataset, reading);
        break;
      case z5::types::uint16:
        work<std::uint16_t>(*dataset, reading);
        break;
      case z5::types::int32:
        work<std::int32_t>(*dataset, reading);
        break;
      case z5::types::uint32:
        work<std::uint32_t>(*dataset, reading);
        break;
      case z5::types::int64:
        work<std::int64_t>(*dataset, reading);
        break;
      case z5::types::uint64:
        work<std::uint64_t>(*dataset, reading);
        break;
      case z5::types::float32:
        work<float>(*dataset, reading);
        break;
      case z5::types::float64:
        work<double>(*dataset, reading);
        break;
      default:
        return 3;
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
