"""``python -m benchmarks.proofs [NAME…]``: what ``shardtypes.prove`` says of the whole programs and their mistakes.

The steps of each program of ``benchmarks.whole_programs`` are proved as they are and with each mistake that its
recorded outcome says is wrong on eight devices alone. Nothing runs on devices. ``--decoder`` proves a decoder of 126
layers with tensor, sequence and data parallel collectives by hand, at full size; ``--unrolled`` does without a scan.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# one of the programs counts its devices before its first step
if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.findings import Finding
from benchmarks.whole_programs.cases import Program, programs
from benchmarks.whole_programs.catches import Catch, catch
from benchmarks.whole_programs.loading import load
from benchmarks.whole_programs.outcomes import recorded
from shardtypes.proving import Proof, prove

Question = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A step, its arguments and the mesh that it runs on."""


@dataclass(frozen=True)
class Answer:
    """What was said of one program; ``raised`` if JAX refuses it."""

    program: str
    change: str
    proofs: tuple[Proof, ...]
    raised: str = ""
    seconds: float = 0.0

    @property
    def refuted(self) -> bool:
        return any(proof.ok is False for proof in self.proofs)

    @property
    def proved(self) -> bool:
        return bool(self.proofs) and all(proof.ok is True for proof in self.proofs)


def _mesh(**sizes: int) -> Any:
    return jax.sharding.AbstractMesh(
        tuple(sizes.values()),
        tuple(sizes),
        axis_types=(jax.sharding.AxisType.Auto,) * len(sizes),
    )


def _megatron_sp(module: Any) -> Iterator[Question]:
    h = module.Hparams()
    yield (
        module.train_step,
        (module.init(h, jax.random.key(0)), *module.make_batch(h)),
        {"mesh": _mesh(d=2, t=4), "lr": h.lr},
    )


def _megatron_fg(module: Any) -> Iterator[Question]:
    params = module.init_params(jax.random.key(0))
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = module.AdamState(zeros, zeros, jnp.int32(0))
    yield (
        module.make_train_step(_mesh(dp=2, tp=4)),
        (params, state, module.make_tokens()),
        {},
    )


def _vocab_parallel_lru(module: Any) -> Iterator[Question]:
    h = module.Hparams()
    tx = module.optax.adam(h.learning_rate)
    params = module.init(h, jax.random.key(1))
    yield (
        module.make_train_step(tx),
        (params, tx.init(params), *module.make_batch(h)),
        {"mesh": _mesh(d=2, t=4)},
    )


def _gpipe_mixer(module: Any) -> Iterator[Question]:
    c = module.CONFIG
    tx, step = module.build(c, _mesh(data=2, stage=4))
    params = module.init_params(jax.random.key(0), c)
    yield step, (params, tx.init(params), *module.make_batch(c)), {}


def _knn_index(module: Any) -> Iterator[Question]:
    cfg = module.IndexConfig()
    mesh = _mesh(data=4, model=2)
    corpus, queries = module.make_data(cfg)
    yield module.build_codebook(cfg, mesh), (corpus,), {}
    rng = np.random.default_rng(1)
    sizes = rng.integers(5, 30, cfg.clusters).astype(np.float32)
    centroids = rng.normal(size=(cfg.clusters, cfg.features)).astype(np.float32)
    yield (
        module.make_search(cfg, mesh),
        (corpus, module.Codebook(centroids, sizes, np.float32(1.0)), queries),
        {},
    )


class _Met(Exception):
    """The call that was looked for."""


def _resnet_pmap(module: Any) -> Iterator[Question]:
    """The first call of the step that the program makes itself, with the keys that it hands out."""
    met: list[tuple[Any, ...]] = []

    def recorded(*args: Any) -> Any:
        met.append(args)
        raise _Met

    step, module.train_step = module.train_step, recorded
    try:
        module.main()
    except _Met:
        module.train_step = step
    state, images, *_ = met[0]
    yield step, met[0], {}
    yield module.eval_step, (state, images, module.shard(module.make_data()[2])), {}


def _switch_moe(module: Any) -> Iterator[Question]:
    cfg = module.MoEConfig()
    step, _ = module.make_step(cfg, _mesh(data=2, expert=4))
    params = [module.init_layer(cfg, jax.random.key(i)) for i in range(cfg.num_layers)]
    velocity = jax.tree.map(jnp.zeros_like, params)
    yield step, (params, velocity, *module.make_data(cfg), jax.random.key(100)), {}


_QUESTIONS = {
    "megatron_sp": _megatron_sp,
    "megatron_fg": _megatron_fg,
    "vocab_parallel_lru": _vocab_parallel_lru,
    "gpipe_mixer": _gpipe_mixer,
    "knn_index": _knn_index,
    "resnet_pmap": _resnet_pmap,
    "switch_moe": _switch_moe,
}
"""The programs that map over a mesh by hand; in the others a mistake is one on one device too."""


def answer(program: Program, change: str, source: str, folder: Path) -> Answer:
    """Prove the steps of one program."""
    path = folder / f"{program.name}.py"
    path.write_text(source)
    start = time.perf_counter()
    proofs: list[Proof] = []
    raised = ""
    try:
        module = load(path)
        for f, args, options in _QUESTIONS[program.name](module):
            proofs.append(prove(f, *args, **options))
    except Exception as error:  # noqa: BLE001 - a mistake that JAX refuses
        raised = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
    return Answer(
        program.name, change, tuple(proofs), raised, time.perf_counter() - start
    )


def caught(program: Program, changed: str, found: Answer) -> Catch:
    """How near the culprit is to the mistake."""
    findings = []
    for proof in found.proofs:
        if proof.ok is False and proof.culprit is not None:
            places = [(proof.culprit.place, proof.culprit.what, False)]
            places += [(place, text, True) for place, text in proof.culprit.related]
            own = [one for one in places if Path(one[0].file).stem == program.name]
            findings += [
                Finding(program.name, place.line, text, related)
                for place, text, related in own
            ]
    return catch(program.source, changed, [], findings)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what is said of each program, and the counts."""
    parser = argparse.ArgumentParser(prog="benchmarks.proofs", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="programs; all if none is named"
    )
    parser.add_argument("--full", action="store_true", help="print whole verdicts")
    parser.add_argument("--change", help="only this mistake")
    parser.add_argument(
        "--decoder", action="store_true", help="prove the decoder instead"
    )
    parser.add_argument(
        "--unrolled",
        action="store_true",
        help="the decoder with its layers written one after another",
    )
    options = parser.parse_args(arguments)
    if options.decoder or options.unrolled:
        _time_decoder(options.unrolled)
        return
    known = recorded()
    right: list[Answer] = []
    wrong: list[tuple[Answer, Catch]] = []
    for program in programs(options.names or tuple(_QUESTIONS)):
        with tempfile.TemporaryDirectory() as folder:
            if not options.change:
                right.append(answer(program, "", program.source, Path(folder)))
                _show(right[-1], None, options.full)
            for change in program.changes:
                outcome = known[program.name][change.name]
                if outcome.outcome != "differs" or outcome.alone == "differs":
                    continue
                if options.change and change.name != options.change:
                    continue
                changed = change.apply(program.source)
                found = answer(program, change.name, changed, Path(folder))
                wrong.append((found, caught(program, changed, found)))
                _show(found, wrong[-1][1], options.full)
    print(
        f"right programs: {len(right)}, proved {sum(a.proved for a in right)}, refuted {sum(a.refuted for a in right)}"
    )
    counts = (
        f"refuted {sum(a.refuted for a, _ in wrong)}, in the changed statement {sum(c.place for _, c in wrong)}, "
        f"near it or naming it {sum(c.near for _, c in wrong)}, proved {sum(a.proved for a, _ in wrong)}"
    )
    print(f"wrong by the mesh: {len(wrong)}, {counts}")


def _show(found: Answer, where: Catch | None, full: bool) -> None:
    heads = {True: "proved", False: "refuted", None: "could not tell"}
    said = ", ".join(heads[proof.ok] for proof in found.proofs) or found.raised
    near = (
        ""
        if where is None
        else " in place"
        if where.place
        else " near"
        if where.near
        else " elsewhere"
    )
    print(
        f"{found.program} {found.change or 'as it is'}: {said}{near if found.refuted else ''} ({found.seconds:.0f} s)"
    )
    if full:
        print("\n".join(str(proof) for proof in found.proofs), flush=True)
    else:
        print(
            "\n".join(
                f"    {proof.culprit}" if proof.ok is False else f"    {proof.reason}"
                for proof in found.proofs
            )
        )
    sys.stdout.flush()


def _time_decoder(unrolled: bool) -> None:
    from benchmarks.decoder import train_step

    f, args, options = train_step(unrolled=unrolled)
    start = time.process_time()
    print(prove(f, *args, **options))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{time.process_time() - start:.1f} s of a processor, {peak:.2f} GB")


if __name__ == "__main__":
    main()
