"""``orbax.checkpoint`` in guarded code: what is restored is what was saved in the same run."""

from __future__ import annotations

from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK, surroundings
from shardlint.evaluation.outside import provide
from shardlint.evaluation.python import Nothing
from shardlint.evaluation.serialization import from_state_dict, to_state_dict
from shardlint.evaluation.stored import copied, forget, keep, kept, name_of
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.trees import Structure, flatten, unflatten


class Asked:
    """What is to be saved, or like what something is to be restored."""

    def __init__(self, item: Any = None, **options: Any) -> None:
        self.item = item


class Several:
    """What is to be saved, or restored, by name."""

    def __init__(self, **items: Any) -> None:
        self.items = items

    def __getitem__(self, name: str) -> Any:
        return self.items[name]

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__.get("items", {})
        if name in found:
            return found[name]
        raise AttributeError(name)


def _given(item: Any, args: Any) -> Any:
    return args.item if isinstance(args, Asked) else item


def _saved(tree: Any) -> Any:
    leaves, _ = flatten(tree)
    for leaf in leaves:
        asarray(leaf)
    return copied(tree)


def _restored(saved: Any, like: Any) -> Any:
    """What was saved, in the form of another tree; without one, only if it comes back in its own."""
    leaves, structure = flatten(copied(saved))
    if like is None:
        _refuse_other_nodes(structure)
        return unflatten(structure, leaves)
    wanted, form = flatten(like)
    if form != structure:
        raise NotEvaluable("a checkpoint that is restored in another form")
    for leaf, one in zip(leaves, wanted, strict=True):
        if not _are_alike(asarray(leaf), one):
            raise NotEvaluable(
                "a checkpoint that is restored with another shape or dtype"
            )
    return unflatten(form, leaves)


def _are_alike(leaf: Any, one: Any) -> bool:
    wanted: Any = one if hasattr(one, "shape") else asarray(one)
    return tuple(leaf.dims) == tuple(wanted.shape) and _dtype(wanted) == leaf.dtype


def _dtype(array: Any) -> str:
    return str(getattr(array.dtype, "name", array.dtype))


def _refuse_other_nodes(structure: Structure) -> None:
    """Tuples and objects of classes come back as lists and dicts."""
    if structure.kind not in (None, dict, list):
        raise NotEvaluable("a checkpoint of objects that is restored without its form")
    for child in structure.children:
        _refuse_other_nodes(child)


class Checkpointer:
    """``PyTreeCheckpointer``, ``StandardCheckpointer`` and others."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Whatever says how files are written."""

    def save(
        self,
        directory: Any,
        item: Any = None,
        *rest: Any,
        args: Any = None,
        **options: Any,
    ) -> None:
        name = name_of(directory)
        if name in surroundings().files and not options.get("force", False):
            raise ValueError(f"Destination {name} already exists.")
        keep(name, (_saved(_given(item, args)),))

    def restore(
        self,
        directory: Any,
        item: Any = None,
        *rest: Any,
        args: Any = None,
        **options: Any,
    ) -> Any:
        like = options.get("target", _given(item, args))
        return _restored(_tree(kept(directory)), like)

    def wait_until_finished(self) -> None:
        """Nothing is under way."""

    close = wait_until_finished

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, *args: object) -> None:
        return None


def _tree(found: Any) -> Any:
    if isinstance(found, tuple) and len(found) == 1:
        return found[0]
    raise NotEvaluable("a file that is no checkpoint")


class Options:
    """``CheckpointManagerOptions``."""

    def __init__(self, max_to_keep: int | None = None, **options: Any) -> None:
        interval = options.get("save_interval_steps", 1)
        rules = ("best_fn", "keep_period", "should_save_fn", "save_on_steps")
        if interval != 1 or any(options.get(name) for name in rules):
            raise NotEvaluable("a checkpoint manager with rules of when to save")
        self.max_to_keep = max_to_keep


class Manager:
    """``CheckpointManager``: checkpoints of a folder, by step."""

    def __init__(
        self,
        directory: Any,
        checkpointers: Any = None,
        options: Any = None,
        **others: Any,
    ) -> None:
        self.directory = directory
        self._folder = name_of(directory)
        self._most = options.max_to_keep if isinstance(options, Options) else None

    def _steps(self) -> dict[int, Any]:
        before = f"{self._folder}/step "
        files = surroundings().files
        return {
            int(name.removeprefix(before)): one
            for name, one in files.items()
            if name.startswith(before)
        }

    def all_steps(self, *args: Any, **options: Any) -> list[int]:
        return sorted(self._steps())

    def latest_step(self) -> int | None:
        """The last step that this run saved: nothing else is in the folder."""
        return max(self._steps(), default=None)

    def should_save(self, step: int) -> bool:
        last = self.latest_step()
        return last is None or int(step) > last

    def save(
        self,
        step: int,
        items: Any = None,
        *rest: Any,
        args: Any = None,
        force: bool = False,
        **options: Any,
    ) -> bool:
        number = int(step)
        if number in self._steps():
            raise NotEvaluable("a checkpoint of a step that there is")
        if not force and not self.should_save(number):
            return False
        if isinstance(args, Several):
            saved: Any = {name: _saved(one.item) for name, one in args.items.items()}
        else:
            saved = (_saved(_given(items, args)),)
        keep(self._path(number), saved)
        for old in self.all_steps()[: -self._most] if self._most else []:
            forget(self._path(old))
        return True

    def _path(self, step: int) -> str:
        return f"{self._folder}/step {step}"

    def restore(
        self,
        step: int | None,
        items: Any = None,
        *rest: Any,
        args: Any = None,
        **options: Any,
    ) -> Any:
        number = self.latest_step() if step is None else int(step)
        if number is None:
            raise FileNotFoundError("No steps found")
        found = kept(self._path(number))
        if not isinstance(found, dict):
            return _restored(_tree(found), _given(items, args))
        if not isinstance(args, Several):
            raise NotEvaluable("several items of a checkpoint without their names")
        wanted = args.items.items()
        return Several(
            **{name: _restored(found[name], one.item) for name, one in wanted}
        )

    def reached_preemption(self, step: int) -> bool:
        return False

    def wait_until_finished(self) -> None:
        """Nothing is under way."""

    close = check_for_errors = wait_until_finished

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *args: object) -> None:
        return None


for _cls in (Asked, Several, Checkpointer, Options, Manager):
    setattr(_cls, MARK, True)
for (
    _name
) in "Checkpointer AsyncCheckpointer PyTreeCheckpointer StandardCheckpointer".split():
    provide(f"orbax.checkpoint.{_name}")(Checkpointer)
for _name in "PyTreeCheckpointHandler StandardCheckpointHandler".split():
    provide(f"orbax.checkpoint.{_name}")(Nothing())
for _name in "PyTreeSave PyTreeRestore StandardSave StandardRestore".split():
    provide(f"orbax.checkpoint.args.{_name}")(Asked)
provide("orbax.checkpoint.args.Composite")(Several)
provide("orbax.checkpoint.CheckpointManager")(Manager)
provide("orbax.checkpoint.CheckpointManagerOptions")(Options)
provide("flax.training.orbax_utils.save_args_from_target")(Nothing())


# --- flax -------------------------------------------------------------------------------------------------------------


def _flax_steps(folder: Any, prefix: str) -> dict[int, str]:
    before = f"{name_of(folder)}/{prefix}"
    names = [name for name in surroundings().files if name.startswith(before)]
    ends = {name: name.removeprefix(before) for name in names}
    return {int(end): name for name, end in ends.items() if end.isdigit()}


@provide("flax.training.checkpoints.save_checkpoint")
@provide("flax.training.checkpoints.save_checkpoint_multiprocess")
def save_checkpoint(
    ckpt_dir: Any,
    target: Any,
    step: Any,
    prefix: str = "checkpoint_",
    keep: int = 1,
    overwrite: bool = False,
    keep_every_n_steps: Any = None,
    **options: Any,
) -> str:
    """A checkpoint of a step, beside the last ones; its path."""
    number = int(step)
    steps = _flax_steps(ckpt_dir, prefix)
    if keep_every_n_steps is not None or (steps and max(steps) >= number):
        raise NotEvaluable("a checkpoint that is not the last one")
    path = f"{name_of(ckpt_dir)}/{prefix}{number}"
    surroundings().files[path] = (copied(to_state_dict(target)),)
    for old in sorted(_flax_steps(ckpt_dir, prefix))[:-keep]:
        forget(steps[old])
    return path


@provide("flax.training.checkpoints.latest_checkpoint")
def latest_checkpoint(ckpt_dir: Any, prefix: str = "checkpoint_") -> str | None:
    """The path of the last checkpoint that this run saved: nothing else is in the folder."""
    steps = _flax_steps(ckpt_dir, prefix)
    return steps[max(steps)] if steps else None


@provide("flax.training.checkpoints.restore_checkpoint")
def restore_checkpoint(
    ckpt_dir: Any,
    target: Any,
    step: Any = None,
    prefix: str = "checkpoint_",
    **options: Any,
) -> Any:
    """The last checkpoint in the form of the target; the target itself where there is none."""
    if step is None:
        path = latest_checkpoint(ckpt_dir, prefix)
    else:
        path = f"{name_of(ckpt_dir)}/{prefix}{int(step)}"
    if path is None:
        return target
    state = copied(_tree(kept(path)))
    return state if target is None else from_state_dict(target, state)
