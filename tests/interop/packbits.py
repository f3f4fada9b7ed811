"""Makes zarr-python know the codec packbits by name, so that zarrs, which has it, encodes and decodes it."""
from dataclasses import dataclass

from zarr.abc.codec import ArrayBytesCodec
from zarr.core.common import parse_named_configuration
from zarr.registry import register_codec


@dataclass(frozen=True)
class PackBits(ArrayBytesCodec):
    configuration: tuple = ()
    is_fixed_size = True

    @classmethod
    def of(cls, **configuration):
        return cls(tuple(configuration.items()))

    @classmethod
    def from_dict(cls, data):
        return cls.of(**(parse_named_configuration(data, "packbits", require_configuration=False)[1] or {}))

    def to_dict(self):
        return {"name": "packbits", "configuration": dict(self.configuration)}

    def compute_encoded_size(self, length, _):
        return length


register_codec("packbits", PackBits)
