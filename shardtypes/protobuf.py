"""Reading protocol-buffer messages by field number.

XLA hands out the compiled module as a serialised message, and no Python classes for it. The wire format is small:
https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass


class BadMessage(ValueError):
    """Bytes that are no protocol-buffer message."""


@dataclass(frozen=True)
class Message:
    """One message: its fields by number, each a list of integers or of bytes, in the order they came."""

    fields: dict[int, list[int | bytes]]

    @classmethod
    def parse(cls, data: bytes) -> Message:
        """Split ``data`` into fields; nested messages stay bytes until asked for. Raises ``BadMessage``."""
        fields: dict[int, list[int | bytes]] = {}
        at = 0
        while at < len(data):
            tag, at = _varint(data, at)
            value: int | bytes
            match tag & 7:
                case 0:
                    value, at = _varint(data, at)
                case 1:
                    (value,), at = struct.unpack_from("<Q", data, at), at + 8
                case 2:
                    size, at = _varint(data, at)
                    value, at = data[at : at + size], at + size
                case 5:
                    (value,), at = struct.unpack_from("<I", data, at), at + 4
                case kind:
                    raise BadMessage(f"wire type {kind} at byte {at}")
            fields.setdefault(tag >> 3, []).append(value)
        if at != len(data):
            raise BadMessage(f"a field ends {at - len(data)} bytes behind the message")
        return cls(fields)

    def number(self, field: int, default: int = 0) -> int:
        """The last integer of a field."""
        values = [
            value for value in self.fields.get(field, []) if isinstance(value, int)
        ]
        return values[-1] if values else default

    def numbers(self, field: int) -> list[int]:
        """All integers of a repeated field, packed or not."""
        found: list[int] = []
        for value in self.fields.get(field, []):
            if isinstance(value, int):
                found.append(value)
                continue
            at = 0
            while at < len(value):
                number, at = _varint(value, at)
                found.append(number)
        return found

    def text(self, field: int) -> str:
        """The last string of a field."""
        values = [
            value for value in self.fields.get(field, []) if isinstance(value, bytes)
        ]
        return values[-1].decode("utf-8", "replace") if values else ""

    def texts(self, field: int) -> list[str]:
        """All strings of a repeated field."""
        return [
            value.decode("utf-8", "replace")
            for value in self.fields.get(field, [])
            if isinstance(value, bytes)
        ]

    def messages(self, field: int) -> Iterator[Message]:
        """The nested messages of a field."""
        for value in self.fields.get(field, []):
            if isinstance(value, bytes):
                yield Message.parse(value)

    def message(self, field: int) -> Message | None:
        """The last nested message of a field, or None."""
        found = list(self.messages(field))
        return found[-1] if found else None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise BadMessage(f"a number does not end at byte {at}")
        byte = data[at]
        result |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return result, at
        shift += 7
