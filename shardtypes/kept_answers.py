"""The compiler's answers, kept on disk: the same program in a later process asks nothing.

What is kept is how the compiler shards the values that were asked about, and never a verdict: each process compares by
itself. An entry's name is the hash of all that the compiler is given, so an entry is never stale. Entries lie in JAX's
own persistent cache or in another folder (``answers_folder``); else nothing is kept.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src.interpreters import pxla

# as JAX itself imports them
from jax._src.lib import xla_client  # type: ignore[attr-defined]
from jax._src.lib.mlir import ir, passmanager  # type: ignore[attr-defined]
from jaxlib import version as jaxlib_version

from shardtypes.answers_folder import folder_in_force
from shardtypes.questions import name_by_position
from shardtypes.whole_files import write_whole

#: The answers of a compilation, in its order: the position of a question among those of the program, and the sharding.
Answers = Sequence[tuple[int, Any]]

#: So many entries are kept at most, those that were used last.
MOST_ENTRIES = 2000
_FORMAT = "shardtypes answers 1"
_SUFFIX = ".json"
# Operations of XLA's own. How values are sharded around any other may be decided by code that this process registered.
_KNOWN_CALLS = frozenset(
    """Sharding SPMDFullToShardShape SPMDShardToFullShape LayoutConstraint
    annotate_device_placement""".split()
)
_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")


def entry_of(lowered: Any, due: Mapping[str, float], devices: Any) -> Path | None:
    """The file for the answers of a lowered program on these devices, None where they are not to be kept."""
    folder = folder_in_force()
    if folder is None:
        return None
    options = _compile_options(lowered, devices)
    program = _program(lowered.compiler_ir("stablehlo"), due)
    if options is None or program is None:
        return None
    state = hashlib.blake2b(digest_size=20)
    for part in (program, options, *map(str.encode, _surroundings(devices))):
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return folder / (state.hexdigest() + _SUFFIX)


def read_answers(entry: Path, due: Mapping[str, float]) -> Answers | None:
    """The answers in a file, if it has one for each time that a question is due; None for a damaged one."""
    try:
        kept = json.loads(entry.read_text("utf-8"))
        if kept["sum"] != _checksum(entry, kept["answers"]):
            return None
        given = Counter(at for at, _ in kept["answers"])
        if given != Counter(dict(enumerate(due.values()))):
            return None
        answers = [(at, _sharding_of(data)) for at, data in kept["answers"]]
    # the last is what too deep a nesting gives, and JAX for a sharding that is none
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return None
    with suppress(OSError):  # read-only; else those that are in use stay the longest
        os.utime(entry)
    return answers


def write_answers(entry: Path, answers: Answers) -> None:
    """Keep answers. A folder that cannot be written only costs time, so that is no error."""
    kept = [(at, _written(sharding)) for at, sharding in answers]
    for (_, given), (_, written) in zip(answers, kept, strict=True):
        # of a kind that JAX does not write out whole
        if _sharding_of(written) != given:
            return
    text = json.dumps({"sum": _checksum(entry, kept), "answers": kept})
    with suppress(OSError):
        write_whole(entry, text, durable=False)
        _forget_oldest(entry.parent)


def _forget_oldest(folder: Path) -> None:
    """Remove the entries beyond the limit, and a tenth more, so that this is rare."""
    names = [name for name in os.listdir(folder) if name.endswith(_SUFFIX)]
    if len(names) <= MOST_ENTRIES:
        return
    used: list[tuple[float, str]] = []
    for name in names:
        with suppress(FileNotFoundError):  # another process removed it
            used.append((os.stat(folder / name).st_mtime, name))
    used.sort()
    for _, name in used[: len(used) - MOST_ENTRIES * 9 // 10]:
        (folder / name).unlink(missing_ok=True)


def _checksum(entry: Path, answers: Sequence[Sequence[Any]]) -> str:
    """Of an entry and its name, so that one under another name is not taken for it."""
    text = json.dumps([_FORMAT, entry.name, answers])
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def _written(sharding: Any) -> str:
    data: bytes = sharding.to_proto().SerializeToString()
    return data.hex()


def _sharding_of(data: str) -> Any:
    described = xla_client.OpSharding()
    described.ParseFromString(bytes.fromhex(data))
    return xla_client.HloSharding.from_proto(described)


def _program(module: Any, questions: Iterable[str]) -> bytes | None:
    """A program without what differs between processes; None where more than XLA decides about its shardings."""
    positions = {name: position for position, name in enumerate(questions)}
    copy = module.operation.clone()
    with module.context, ir.Location.unknown():
        for call in _custom_calls(copy):
            if name_by_position(call, positions):
                continue
            target = ir.StringAttr(call.attributes["call_target_name"]).value
            if target not in _KNOWN_CALLS:
                return None
        passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(copy)
        written = io.BytesIO()
        copy.write_bytecode(written)
    return written.getvalue()


def _custom_calls(program: Any) -> list[Any]:
    found = []

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.custom_call":
            found.append(operation)
        return ir.WalkResult.ADVANCE

    program.walk(visit)
    return found


def _compile_options(lowered: Any, devices: Any) -> bytes | None:
    """What JAX gives to the compiler beside the program; None where a release of JAX has that elsewhere."""
    try:
        lowering = lowered._lowering
        given = lowering.compile_args
        in_shardings, out_shardings = given["in_shardings"], given["out_shardings"]
        # whether the compiler may choose how arguments and results are sharded
        chosen_in, chosen_out = pxla.get_prop_to_input_output(
            in_shardings, out_shardings, len(given["ordered_effects"])
        )
        own = lowering._compiler_options_kvs
        options = pxla.create_compile_options(
            lowering.stablehlo(),
            given["tuple_args"],
            chosen_in,
            chosen_out,
            devices[0].client,
            np.array(devices),
            dict(own),
        )
        data: bytes = options.SerializeAsString()
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return data + repr((own, in_shardings, out_shardings)).encode()


def _surroundings(devices: Any) -> list[str]:
    """Who compiles, and for what."""
    client = devices[0].client
    return [
        _FORMAT,
        jax.__version__,
        jaxlib_version.__version__,
        client.platform,
        client.platform_version,
        *(os.environ.get(name, "") for name in _FLAGS),
        *(
            f"{device.id} {device.process_index} {device.device_kind} {getattr(device, 'coords', '')}"
            for device in devices
        ),
    ]
