"""An E(n)-equivariant graph network learns energies and forces of small molecules.

Molecules are spread over mesh axis "mol"; the edges of every molecule over "edge", in no particular order.  Atoms are
replicated over "edge", so whatever is summed at an atom is summed over that axis.  Forces are gradients of energies,
which makes the training step differentiate twice.
"""
import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

TYPES, WIDTH, LAYERS = 3, 8, 2
MOLECULES, ATOMS, EDGES = 8, 7, 32
JITTER, FORCE_WEIGHT = 0.05, 2.0


@partial(jax.tree_util.register_dataclass, data_fields=["kind", "position", "atom", "energy", "force"], meta_fields=[])
@dataclasses.dataclass
class Molecules:
    kind: jax.Array
    position: jax.Array
    atom: jax.Array  # 0 for padding
    energy: jax.Array
    force: jax.Array


@partial(jax.tree_util.register_dataclass, data_fields=["sender", "receiver", "real"], meta_fields=[])
@dataclasses.dataclass
class Graph:
    sender: jax.Array
    receiver: jax.Array
    real: jax.Array  # 0 for padding


MOLECULE_SPEC = P("mol")
EDGE_SPEC = P("mol", "edge")


def init_params(key):
    keys = iter(jax.random.split(key, 6 * LAYERS + 3))
    dense = lambda *shape: jax.random.normal(next(keys), shape) / np.sqrt(shape[0])
    layers = [
        {
            "message1": dense(2 * WIDTH + 1, WIDTH), "message2": dense(WIDTH, WIDTH), "attention": dense(WIDTH),
            "move": dense(WIDTH), "node1": dense(2 * WIDTH, WIDTH), "node2": dense(WIDTH, WIDTH),
        }
        for _ in range(LAYERS)
    ]  # fmt: skip
    return {"kind": dense(TYPES, WIDTH), "layers": layers, "readout": dense(WIDTH), "shift": dense(TYPES)}


def at_receivers(values, graph):
    """Sums of what the edges of this shard bring to every atom."""
    return jax.ops.segment_sum(values, graph.receiver, ATOMS)


def edge_softmax(logits, graph):
    """Softmax over all edges that lead to the same atom."""
    logits = jnp.where(graph.real > 0, logits, -1e9)
    top = jax.ops.segment_max(lax.stop_gradient(logits), graph.receiver, ATOMS)
    top = lax.pmax(jnp.maximum(top, -1e9), "edge")
    weights = jnp.exp(logits - top[graph.receiver]) * graph.real
    total = lax.psum(at_receivers(weights, graph), "edge")
    return weights / (total[graph.receiver] + 1e-9)


def layer(p, h, x, graph):
    offset = x[graph.sender] - x[graph.receiver]
    distance2 = jnp.sum(offset**2, axis=-1, keepdims=True)
    pair = jnp.concatenate([h[graph.sender], h[graph.receiver], distance2], axis=-1)
    message = jax.nn.silu(jax.nn.silu(pair @ p["message1"]) @ p["message2"])
    attention = edge_softmax(message @ p["attention"], graph)
    received = lax.psum(at_receivers(attention[:, None] * message, graph), "edge")
    degree = jnp.maximum(lax.psum(at_receivers(graph.real, graph), "edge"), 1.0)
    step = offset * jnp.tanh(message @ p["move"])[:, None] * graph.real[:, None]
    x = x + lax.psum(at_receivers(step, graph) / degree[:, None], "edge")
    h = h + jax.nn.silu(jnp.concatenate([h, received], axis=-1) @ p["node1"]) @ p["node2"]
    return h, x


def energy_of(position, params, kind, atom, graph):
    h, x = params["kind"][kind], position
    for p in params["layers"]:
        h, x = layer(p, h, x, graph)
    spread = jnp.sum((x - position) ** 2, axis=-1)
    each = jnp.tanh(h) @ params["readout"] + spread + params["shift"][kind]
    return jnp.sum(each * atom)


def energy_and_force(params, position, kind, atom, graph):
    energy, gradient = jax.value_and_grad(energy_of)(position, params, kind, atom, graph)
    return energy, -gradient


def jitter(key, molecules):
    """Training noise, different for every molecule whatever device it is on."""
    count = molecules.atom.shape[0]
    ids = lax.axis_index("mol") * count + jnp.arange(count)
    keys = jax.vmap(partial(jax.random.fold_in, key))(ids)
    noise = jax.vmap(lambda k: jax.random.normal(k, molecules.position.shape[1:]))(keys)
    return molecules.position + JITTER * noise * molecules.atom[..., None]


def losses(params, molecules, graph, key):
    position = jitter(key, molecules)
    predict = jax.vmap(energy_and_force, in_axes=(None, 0, 0, 0, 0))
    energy, force = predict(params, position, molecules.kind, molecules.atom, graph)
    size = jnp.sum(molecules.atom, axis=1)
    energy_loss = lax.pmean(jnp.mean(((energy - molecules.energy) / size) ** 2), "mol")
    square = jnp.sum((force - molecules.force) ** 2, axis=-1) * molecules.atom
    force_loss = lax.psum(jnp.sum(square), "mol") / (3 * lax.psum(jnp.sum(size), "mol"))
    return energy_loss + FORCE_WEIGHT * force_loss, {"energy": energy_loss, "force": force_loss}


def make_train_step(mesh, optimizer):
    @partial(
        jax.shard_map, mesh=mesh, in_specs=(P(), MOLECULE_SPEC, EDGE_SPEC, P()), out_specs=((P(), P()), P())
    )  # fmt: skip
    def gradients(params, molecules, graph, key):
        return jax.value_and_grad(losses, has_aux=True)(params, molecules, graph, key)

    @jax.jit
    def train_step(params, opt_state, molecules, graph, key):
        (loss, parts), grads = gradients(params, molecules, graph, key)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, {"loss": loss, **parts, "norm": optax.global_norm(grads)}

    return train_step


def make_data():
    """Chains of atoms that attract and repel each other; edges between all that are near."""
    r = np.random.default_rng(31)
    kind = r.integers(0, TYPES, (MOLECULES, ATOMS)).astype(np.int32)
    position = np.cumsum(r.normal(size=(MOLECULES, ATOMS, 3)), axis=1).astype(np.float32)
    atom = (np.arange(ATOMS) < np.array([7, 6, 7, 5, 4, 3, 5, 4])[:, None]).astype(np.float32)
    position *= atom[..., None]
    sender, receiver = np.zeros((2, MOLECULES, EDGES), np.int32)
    real = np.zeros((MOLECULES, EDGES), np.float32)
    for m in range(MOLECULES):
        gap = np.linalg.norm(position[m, :, None] - position[m, None], axis=-1)
        near = (gap < 3.0) & ~np.eye(ATOMS, dtype=bool) & (atom[m, :, None] * atom[m] > 0)
        pairs = r.permutation(np.argwhere(near))[:EDGES]
        sender[m, : len(pairs)], receiver[m, : len(pairs)] = pairs.T
        real[m, : len(pairs)] = 1.0
    energy = (np.cos(position).sum(-1) * (1 + kind) * atom).sum(-1).astype(np.float32)
    force = (np.sin(position) * (1 + kind)[..., None] * atom[..., None]).astype(np.float32)
    return Molecules(kind, position, atom, energy, force), Graph(sender, receiver, real)


def main(steps=3):
    mesh = jax.make_mesh((2, 4), ("mol", "edge"), axis_types=(AxisType.Auto,) * 2)
    optimizer = optax.adam(1e-2, eps=1e-5)
    molecules, graph = make_data()
    molecules = jax.device_put(molecules, NamedSharding(mesh, MOLECULE_SPEC))
    graph = jax.device_put(graph, NamedSharding(mesh, EDGE_SPEC))
    params = init_params(jax.random.key(1))
    opt_state, train_step, log = optimizer.init(params), make_train_step(mesh, optimizer), []
    for i in range(steps):
        params, opt_state, metrics = train_step(params, opt_state, molecules, graph, jax.random.key(i))
        log.append(metrics)
    return {"log": jax.tree.map(lambda *a: np.array(a), *log), "params": params}


def reference(steps=3):
    molecules, graph = make_data()
    optimizer, params, log = optax.adam(1e-2, eps=1e-5), init_params(jax.random.key(1)), []

    def energy(position, params, kind, atom, adjacent):
        h, x, linked = params["kind"][kind], position, adjacent > 0
        for p in params["layers"]:
            offset = x[None] - x[:, None]  # receiver, sender
            rows = [jnp.broadcast_to(a, (ATOMS, ATOMS, WIDTH)) for a in (h[None], h[:, None])]
            pair = jnp.concatenate([*rows, (offset**2).sum(-1, keepdims=True)], -1)
            m = jax.nn.silu(jax.nn.silu(pair @ p["message1"]) @ p["message2"])
            a = jax.nn.softmax(jnp.where(linked, m @ p["attention"], -1e9), 1) * adjacent
            x = x + (offset * (jnp.tanh(m @ p["move"]) * adjacent)[..., None]).sum(1) / np.maximum(adjacent.sum(1), 1)[:, None]
            h = h + jax.nn.silu(jnp.concatenate([h, jnp.einsum("rs,rsc->rc", a, m)], -1) @ p["node1"]) @ p["node2"]
        each = jnp.tanh(h) @ params["readout"] + ((x - position) ** 2).sum(-1) + params["shift"][kind]
        return each @ atom

    def loss(params, key):
        parts = []
        for m in range(MOLECULES):
            adjacent = np.zeros((ATOMS, ATOMS), np.float32)
            np.add.at(adjacent, (graph.receiver[m], graph.sender[m]), graph.real[m])
            atom = molecules.atom[m]
            x = molecules.position[m] + JITTER * atom[:, None] * jax.random.normal(jax.random.fold_in(key, m), (ATOMS, 3))
            e, gradient = jax.value_and_grad(energy)(x, params, molecules.kind[m], atom, adjacent)
            error = ((gradient + molecules.force[m]) ** 2).sum(-1) @ atom
            parts.append((((e - molecules.energy[m]) / atom.sum()) ** 2, error))
        energies, forces = map(sum, zip(*parts))
        energies, forces = energies / MOLECULES, forces / (3 * molecules.atom.sum())
        return energies + FORCE_WEIGHT * forces, {"energy": energies, "force": forces}

    grad, state = jax.jit(jax.value_and_grad(loss, has_aux=True)), optimizer.init(params)
    for i in range(steps):
        (value, parts), g = grad(params, jax.random.key(i))
        updates, state = optimizer.update(g, state, params)
        params = optax.apply_updates(params, updates)
        log.append({"loss": value, **parts, "norm": optax.global_norm(g)})
    return {"log": jax.tree.map(lambda *a: np.array(a), *log), "params": params}


if __name__ == "__main__":
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), got := main(), reference())
    print(got["log"])
