"""Statements that random programs in the manual view are made of.

``{a}`` and ``{b}`` are variables, ``{i}`` is a mesh axis; ``PRELUDE`` has the functions that they call.
"""

from __future__ import annotations

ONE = [
    "jnp.tanh({a})", "-{a}", "{a} * 2.0", "{a} + 1.0", "jnp.exp({a} * 0.1)", "jnp.square({a})", "{a} ** 2", "{a}.T",
    "{a}[0]", "{a}[:, 0]", "{a}[1:3]", "{a}[..., :2]", "{a}[None]", "{a}[::-1]", "jnp.sum({a}, axis=0)",
    "jnp.sum({a}, axis=-1)", "jnp.sum({a})", "jnp.mean({a}, axis=-1, keepdims=True)", "jnp.mean({a}, axis=0)",
    "jnp.max({a}, axis=-1, keepdims=True)", "jnp.min({a}, axis=0)", "jnp.var({a}, axis=-1)",
    "jax.nn.softmax({a}, axis=-1)", "jax.nn.softmax({a}, axis=0)", "jnp.cumsum({a}, axis=0)",
    "jnp.cumsum({a}, axis=-1)", "{a}.reshape(-1)", "{a}.reshape({a}.shape[0] * {a}.shape[1])",
    "{a}.reshape({a}.shape[0], 2, -1)", "{a}.reshape(2, -1)", "jnp.expand_dims({a}, 1)", "jnp.flip({a}, axis=0)",
    "jnp.roll({a}, 1, axis=-1)", "jnp.stack([{a}, {a}])", "jnp.concatenate([{a}, {a}], axis=-1)",
    "jnp.concatenate([{a}, -{a}], axis=0)", "jnp.where({a} > 1.0, {a}, 0.0)", "jnp.sort({a}, axis=-1)",
    "{a}.astype(jnp.int32)", "jnp.argmax({a}, axis=-1)", "jnp.take({a}, jnp.array([0, 1]), axis=0)",
    "jnp.take({a}, jnp.array([0, 1]), axis=-1)", "lax.dynamic_slice_in_dim({a}, 0, 2, axis=0)", "{a}.at[0].set(True)",
    "{a}.at[:, 0].multiply(True)", "jnp.swapaxes({a}, 0, 1)", "jnp.moveaxis({a}, 0, -1)", "jnp.squeeze({a}[None], 0)",
    "jnp.split({a}, 2, axis=-1)[0]", "jnp.broadcast_to({a}, (2, *{a}.shape))", "jnp.zeros_like({a}) + {a}",
    "jax.nn.relu({a})", "jnp.logical_not({a} > 0.5)", "jnp.tril({a})", "{a} / 3.0",
    "jax.nn.one_hot({a}[0].astype(jnp.int32), 3)", "jnp.prod({a} * 0.1 + 0.9, axis=-1)", "jnp.abs({a})",
    "jax.nn.logsumexp({a}, axis=-1)", "jnp.linalg.norm({a}, axis=-1)", "jnp.maximum({a}, 0.5)",
    "jnp.einsum('ij->j', {a})", "jnp.einsum('ij->ji', {a})", "jnp.any({a} > 1.2, axis=0)",
    "einops.rearrange({a}, 'a b -> b a')", "einops.rearrange({a}, 'a (b c) -> a c b', c=2)",
    "einops.rearrange({a}, 'a b -> (a b)')", "einops.repeat({a}, 'a b -> a b c', c=2)",
    "einops.rearrange({a}, '(a c) b -> a c b', c=2)", "jnp.pad({a}, ((0, 0), (1, 0)))", "jnp.tile({a}, (1, 2))",
    "jnp.tile({a}, 2)", "jnp.tile({a}, (2, 1, 1))", "jnp.repeat({a}, 2, axis=0)", "jnp.repeat({a}, 2, axis=-1)",
    "jnp.repeat({a}, 2)", "jnp.roll({a}, 1, axis=0)", "jnp.roll({a}, 2)", "jnp.flip({a})",
    "jnp.cumprod({a} * 0.1 + 0.9, axis=0)", "jnp.argmin({a}, axis=0)", "jnp.argsort({a}, axis=-1)",
    "jnp.sort({a}, axis=0)", "lax.top_k({a}, 2)[0]", "lax.top_k({a}, 2)[1]", "lax.cumsum({a}, axis=1)",
    "lax.cummax({a}, axis=0)", "lax.sort({a}, dimension=0)", "jnp.diff({a}, axis=-1)", "jnp.trace({a})",
    "jnp.diagonal({a})", "jnp.median({a}, axis=0)", "jnp.average({a}, axis=0)", "jnp.clip({a}, 0.0, 1.0)",
    "jnp.std({a}, axis=0)", "jax.nn.log_softmax({a}, axis=0)", "jnp.count_nonzero({a} > 0.5, axis=0)",
    "lax.conv({a}[None, None], jnp.ones((1, 1, 3, 3)), (1, 1), 'SAME')[0, 0]", "jnp.convolve({a}[0], jnp.ones(3))",
    "lax.scan(lambda c, r: (c + r, c * 2.0), jnp.zeros_like({a}[0]), {a})[0]",
    "lax.scan(lambda c, r: (c + r, c * 2.0), jnp.zeros_like({a}[0]), {a})[1]",
    "lax.scan(lambda c, r: (c, jnp.sum(r)), 0.0, {a})[1]", "lax.fori_loop(0, 3, lambda i, v: v * 0.5 + 1.0, {a})",
    "jax.vmap(jnp.tanh)({a})", "jax.vmap(jnp.sum)({a})", "jax.vmap(jnp.sum, in_axes=-1)({a})",
    "jax.vmap(lambda v: lax.psum(v, 'd'))({a})", "jax.vmap(lambda v: v - lax.pmean(v, 'i'), axis_name='i')({a})",
    "jax.vmap(lambda v: v * lax.axis_index('d'))({a})", "jax.vmap(jnp.flip, in_axes=1, out_axes=1)({a})",
    "{a}[jnp.array([1, 0])]", "{a}[:, jnp.array([0, 1])]", "{a}.at[jnp.array([0, 1])].add(True)",
    "lax.dynamic_update_slice_in_dim({a}, {a}[:1] * 2.0, 0, axis=0)", "lax.dynamic_slice({a}, (0, 0), (1, 2))",
    "jax.ops.segment_sum({a}, jnp.arange({a}.shape[0]) % 2, 2)", "jax.grad(lambda v: jnp.sum(v * v))({a})",
    "jax.value_and_grad(lambda v: jnp.mean(jnp.tanh(v)))({a})[0]", "jnp.linalg.norm({a})", "jnp.linalg.qr({a})[1]",
    "jnp.linalg.det({a} @ {a}.T)", "jnp.rot90({a})", "lax.rev({a}, (1,))", "jax.checkpoint(jnp.tanh)({a})",
    "jnp.roll({a}, (1, 2), axis=(0, 1))", "jnp.flip({a}, axis=-1)", "lax.top_k({a}.T, 2)[0]",
    "jnp.sum({a}, axis=(-2,))",
    "lax.conv_transpose({a}[None, :, :, None], jnp.ones((3, 3, 1, 1)), (2, 1), 'SAME')[0, :, :, 0]",
    "lax.conv_transpose({a}[..., None], jnp.ones((3, 1, 2)), (1,), 'VALID')",
    "lax.conv_general_dilated({a}[None, None], jnp.ones((2, 1, 1, 3)), (1, 2), ((0, 0), (1, 1)))[0, 1]",
    "lax.conv_general_dilated({a}[..., None], jnp.ones((1, 1, 2)), (1,), 'SAME', None, None, ('NWC', 'WIO', 'NWC'))",
    "lax.conv({a}[None, None], jnp.ones((1, 1, 2, 1)), (2, 1), 'VALID')[0, 0]", "jnp.trace({a}, offset=1)",
    "jnp.trace(jnp.stack([{a}, {a}]), axis1=1, axis2=2)", "jnp.diag({a}[0])", "jnp.diag({a})",
    "jnp.trace({a}[:, None] * jnp.ones((3, 1)), axis1=1, axis2=2)",
    "jnp.diagonal({a}[:, None, :2], axis1=-2, axis2=-1)", "{a}[jnp.arange({a}.shape[0]), 0]",
    "{a}[jnp.arange(2), jnp.arange(2)]", "{a}[:, None][:, 0]", "{a}[-1]", "{a}[1:, ::2]",
    "{a}[jnp.array([[0, 1], [1, 0]])]", "jnp.take({a}, 0, axis=1)", "jnp.take({a}, jnp.array([0, 3]))",
    "jnp.take_along_axis({a}, jnp.argsort({a}, axis=1), axis=1)", "{a}.at[:, jnp.array([0, 1])].set(True)",
    "jnp.take_along_axis({a}, jnp.argmax({a}, axis=-1)[:, None], axis=-1)", "{a}.at[1:3].set(False)",
    "{a}.at[...].add(True)", "{a}.at[:, :2].add({a}[:, :2])", "{a}.at[0].set({a}[1])", "{a}.at[:, 0].set({a}[:, 1])",
    "jnp.zeros_like({a}).at[0].add({a}[0])", "jnp.zeros((5, {a}.shape[1])).at[jnp.arange({a}.shape[0]) % 5].add({a})",
    "jnp.zeros_like({a})[0]", "jnp.zeros({a}.shape[1]).at[jnp.arange({a}.shape[1])].add({a}[0])",
    "{a}.at[{a}.astype(jnp.int32)[0] % 2].set(False)", "jax.ops.segment_max({a}, jnp.arange({a}.shape[0]) % 2, 2)",
    "jax.ops.segment_sum({a}.T, jnp.arange({a}.shape[1]) % 3, 3)",
    "jax.ops.segment_sum({a}, {a}[:, 0].astype(jnp.int32) % 2, num_segments=2)", "{a}.at[jnp.array([1, 0])].get()",
    "jax.lax.map(lambda r: r * 2.0, {a})", "jax.vmap(lambda v: v[0])({a})", "jax.vmap(lambda v: jnp.roll(v, 1))({a})",
    "lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 0.5), (0, {a}))[1]",
    "jnp.select([{a} > 0.5], [{a}], 0.0)",
    "lax.scan(lambda c, r: (jnp.tanh(c) + r, c), jnp.zeros_like({a}[0]), {a})[0]",
    "lax.scan(lambda c, r: (c + jnp.sum(r), None), 0.0, {a})[0]", "lax.associative_scan(jnp.add, {a}, axis=0)",
    "jnp.unstack({a}[:2])[0]", "jnp.array_split({a}, 2, axis=0)[1]", "jnp.atleast_3d({a})", "jnp.ravel({a})",
    "{a}.reshape(-1, {a}.shape[-1] // 2)", "{a}.reshape(1, *{a}.shape)", "{a}.reshape(2, {a}.shape[0] // 2, -1)",
    "jax.scipy.stats.norm.logpdf({a})", "jax.scipy.special.softmax({a}, axis=-1)", "jax.scipy.stats.sem({a}, axis=0)",
    "jax.scipy.special.log_softmax({a}, axis=0)", "jnp.linalg.svdvals({a})", "jnp.block([[{a}], [{a}]])",
    "jnp.resize({a}, (3, 2))", "jax.scipy.integrate.trapezoid({a}, axis=0)", "jnp.polyadd({a}[0], {a}[0])",
    "lax.tile({a}, (2, 1))", "jax.scipy.special.gammainc(1.5, jnp.abs({a}))", "jnp.linalg.pinv({a})",
    "optax.tree.norm([{a}, {a}[0]])", "optax.tree.sum([{a}, {a} * 2.0])", "optax.tree.max([{a}])", "jnp.i0({a})",
    "optax.losses.squared_error({a})", "jax.nn.glu({a}[:, :2], axis=-1)", "jnp.fft.rfft({a}, axis=0).real",
    "lax.reduce_window({a}, 0.0, lax.add, (1, 2), (1, 1), 'VALID')",
]  # fmt: skip
TWO = [
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / (1.5 + jnp.abs({b}))", "{a} @ {b}", "{a} @ {b}.T",
    "jnp.einsum('ij,jk->ik', {a}, {b})", "jnp.einsum('ij,kj->ik', {a}, {b})", "jnp.einsum('ij,ij->i', {a}, {b})",
    "jnp.einsum('ij,ij->', {a}, {b})", "jnp.einsum('ij,j->ij', {a}, {b})", "jnp.einsum('ij,j->i', {a}, {b})",
    "jnp.maximum({a}, {b})", "jnp.where({a} > {b}, {a}, {b})", "{a}[..., None] * {b}", "{a} + {b}[None]",
    "jax.scipy.stats.norm.pdf({a}, {b})", "optax.losses.cosine_similarity({a}, {b})", "jnp.block([{a}, {b}])",
    "optax.tree.vdot([{a}], [{b}])", "jnp.copysign({a}, {b})", "jnp.heaviside({a}, {b})", "jnp.ldexp({a}, 2)",
    "optax.losses.huber_loss({a}, {b})", "jax.scipy.special.gammainc(jnp.abs({a}) + 0.5, jnp.abs({b}))",
    "optax.losses.squared_error({a}, {b})", "jax.scipy.special.xlogy({a}, jnp.abs({b}) + 0.5)",
    "jnp.concatenate([{a}, {b}], axis=0)", "jnp.stack([{a}, {b}], axis=1)", "jnp.dot({a}, {b})",
    "jnp.take({a}, {b}.astype(jnp.int32) % 3, axis=-1)", "{a}.at[0].add({b}[0].astype({a}.dtype))",
    "jnp.outer({a}[0], {b}[0])",
    "jnp.zeros((4, 3)).at[{a}.astype(jnp.int32) % 4, {b}.astype(jnp.int32) % 3].add(1.0)",
    "jnp.take_along_axis({a}, {b}.astype(jnp.int32) % 2, axis=-1)", "jnp.vdot({a}, {b})", "jnp.minimum({a}, {b})",
    "jnp.tensordot({a}, {b}, 1)", "lax.dot_general({a}, {b}, (((1,), (0,)), ((), ())))", "jnp.inner({a}, {b})",
    "jnp.hstack([{a}, {b}])", "jnp.vstack([{a}, {b}])", "jnp.where({a} > 0.0, {b}, 0.0)",
    "jnp.einsum('ij,ik->jk', {a}, {b})", "{a}.at[:2].set({b}[:2].astype({a}.dtype))",
    "{a}.at[{b}[:, 0].astype(jnp.int32) % 2].add(True)",
    "jax.vmap(lambda v: v @ {b})({a})", "jax.vmap(lambda v: v * {b}, in_axes=1, out_axes=1)({a})",
    "jax.vmap(lambda v, w: v * w)({a}, {b})", "jax.vmap(jnp.dot, in_axes=(0, None))({a}, {b})",
    "lax.fori_loop(0, 3, lambda i, v: v + {b}, {a})", "lax.scan(lambda c, r: (c * 0.5 + r, c), {b}[0], {a})[0]",
    "lax.cond(True, lambda: {a}, lambda: {b})", "{a}[{b}[:, 0].astype(jnp.int32) % 2]",
    "{a}[:, {b}[0].astype(jnp.int32) % 2]", "{a}[jnp.arange({a}.shape[0]), {b}[:, 0].astype(jnp.int32) % 2]",
    "{a}.at[:, 0].set({b}[:, 0].astype({a}.dtype))",
    "{a}.at[jnp.arange({a}.shape[0]), {b}[:, 0].astype(jnp.int32) % 2].add(True)",
    "{a}.at[0].set({b}[0].astype({a}.dtype))",
    "jnp.zeros((4, {a}.shape[1])).at[{b}[:, 0].astype(jnp.int32) % 4].add({a})",
    "{a}.at[:, 1:3].mul({b}[:, 1:3].astype({a}.dtype))",
    "jnp.zeros((4, {a}.shape[1])).at[{b}[:, 0].astype(jnp.int32) % 4].set({a})",
    "{a}.at[{b}.astype(jnp.int32)[0] % 2, 0].add(True)", "jax.ops.segment_sum({a}, {b}[:, 0].astype(jnp.int32) % 3, 3)",
    "jax.ops.segment_min({a}, {b}[:, 0].astype(jnp.int32) % 3, 3)",
    "jnp.take({a}, {b}[0].astype(jnp.int32) % 3, axis=0)",
    "jnp.take_along_axis({a}, {b}.astype(jnp.int32)[:, :2] % 2, axis=1)",
    "jnp.take_along_axis({a}, {b}.astype(jnp.int32)[:2] % 2, axis=0)",
    "lax.dynamic_update_slice({a}, {b}[:1], (0, 0))", "jnp.concatenate([{a}[:, :1], {b}], axis=-1)",
    "lax.select({a} > 0.5, {a}, {b})", "jnp.append({a}, {b}, axis=0)",
    "lax.scan(lambda c, r: (c + r[0] * r[1], c), jnp.zeros_like({a}[0]), ({a}, {b}))[0]",
    "lax.scan(lambda c, r: (c + r @ {b}, None), jnp.zeros_like({a}[0] @ {b}), {a})[0]", "jnp.kron({a}[:1], {b}[:1])",
    "lax.conv_general_dilated({a}[:, None], {b}[None, None, 0, :2], (1,), 'SAME')", "jnp.interp({a}, {b}[0], {b}[0])",
    "lax.conv_transpose({a}[None], {b}[None], (1,), 'SAME')[0]",
    "lax.dynamic_slice_in_dim({a}, {b}[0, 0].astype(jnp.int32) % 2, 1, 0)",
    "lax.conv({a}[..., None], {b}[..., None], (1,), 'VALID')[..., 0]", "jnp.searchsorted(jnp.sort({a}[0]), {b})",
]  # fmt: skip
COLLECTIVES = [
    "lax.psum({a}, '{i}')", "lax.psum({a}, '{i}')", "lax.psum({a}, ('d', 't'))", "lax.pmean({a}, '{i}')",
    "lax.pmax({a}, '{i}')", "lax.pmin({a}, ('t', 'd'))", "lax.all_gather({a}, '{i}', axis=0, tiled=True)",
    "lax.all_gather({a}, '{i}', axis=1, tiled=True)", "lax.all_gather({a}, '{i}')",
    "lax.all_gather({a}, ('t', 'd'), axis=0, tiled=True)", "lax.all_gather({a}, ('d', 't'), axis=0, tiled=True)",
    "lax.psum_scatter({a}, '{i}', scatter_dimension=0, tiled=True)",
    "lax.psum_scatter({a}, '{i}', scatter_dimension=1, tiled=True)", "lax.all_to_all({a}, '{i}', 0, 1, tiled=True)",
    "lax.all_to_all({a}, '{i}', 1, 0, tiled=True)",
    "lax.ppermute({a}, '{i}', [(n, (n + 1) % lax.axis_size('{i}')) for n in range(lax.axis_size('{i}'))])",
    "lax.pmax({a}, '{i}')", "lax.all_gather({a}, '{i}', axis=-1, tiled=True)", "lax.all_gather({a}, '{i}', axis=-1)",
    "lax.psum_scatter({a}[:4], 't')", "lax.psum_scatter({a}, ('d', 't'), scatter_dimension=0, tiled=True)",
    "lax.psum_scatter({a}, ('t', 'd'), scatter_dimension=1, tiled=True)",
    "lax.all_to_all({a}, ('d', 't'), 0, 1, tiled=True)", "lax.all_to_all({a}[:4], 't', 0, 0)",
    "lax.all_to_all({a}[:, :2], 'd', 1, 0)", "lax.pcast({a}, '{i}', to='varying')",
    "lax.pshuffle({a}, '{i}', list(range(lax.axis_size('{i}')))[::-1])",
    "lax.psum({a}, 't', axis_index_groups=[[0, 1], [2, 3]] if lax.axis_size('t') == 4 else None)",
    "lax.all_gather({a}, 't', axis_index_groups=[[0, 1], [2, 3]] if lax.axis_size('t') == 4 else None, tiled=True)",
    "lax.psum({a} / lax.axis_size('{i}'), '{i}')", "lax.pmean({a} * lax.axis_size('{i}'), '{i}')",
    "lax.pmean({a}, '{i}') * lax.axis_size('{i}')", "lax.psum({a}, '{i}') / lax.axis_size('{i}')",
    "lax.psum({a} + {b}, '{i}')", "lax.psum({a} * {b}, '{i}')", "lax.psum((({a}, {b})), '{i}')[0]",
    "{a} * lax.axis_index('{i}')", "jnp.where(lax.axis_index('{i}') == 0, {a}, 0.0)", "lax.pmean({a}, ('d', 't'))",
    "lax.pmax({a}, 't', axis_index_groups=pairs())", "lax.pmean({a}, 't', axis_index_groups=pairs())",
    "lax.all_gather({a}, '{i}', axis=-2, tiled=True)", "lax.all_gather({a}, ('t', 'd'), axis=-1)",
    "lax.all_gather({a}, ('d', 't'))", "lax.all_gather({a}, 't', axis_index_groups=pairs())",
    "lax.all_gather({a}, '{i}', axis=1)", "lax.pvary({a}, '{i}')", "lax.pvary({a}, ('d', 't'))",
    "lax.psum_scatter({a}[:2], 'd')", "lax.psum_scatter({a}[:, :4], 't', scatter_dimension=1)",
    "lax.psum_scatter({a}[:8], ('d', 't'))", "lax.psum_scatter({a}, 't', axis_index_groups=pairs(), tiled=True)",
    "lax.all_to_all({a}, ('t', 'd'), 1, 0, tiled=True)", "lax.all_to_all({a}, '{i}', 1, 1, tiled=True)",
    "lax.all_to_all({a}, 't', 0, 1, axis_index_groups=pairs(), tiled=True)", "lax.all_to_all({a}[:, :4], 't', 1, 1)",
    "lax.all_to_all({a}[:2], 'd', 0, 1)",
    "lax.ppermute({a}, ('d', 't'), [(n, n) for n in range(lax.axis_size(('d', 't')))])",
    "lax.axis_index(('d', 't')) + {a}", "lax.ppermute({a}, '{i}', [(0, 0)])",
    "lax.pshuffle({a}, '{i}', list(range(lax.axis_size('{i}'))))", "lax.pcast({a}, ('d', 't'), to='varying')",
    "lax.ppermute(jnp.sort({a}, axis=0), '{i}', [(0, 0)])", "lax.psum({a}, '{i}') / lax.psum(1, '{i}')",
    "lax.psum({a}, '{i}') - lax.pmax({a}, '{i}')", "{a} + lax.psum({b}, '{i}')",
    "lax.all_gather({a}, '{i}', tiled=True) @ {b}", "lax.psum({a} @ {b}, '{i}')",
    "lax.psum(jnp.sum({a} * {b}, axis=-1), '{i}')", "lax.pmean(jnp.mean({a}, axis=0), '{i}')",
    "lax.psum(jnp.sum({a}, axis=-1), '{i}') / ({a}.shape[-1] * lax.axis_size('{i}'))",
    "jnp.exp({a} - lax.pmax(jnp.max({a}), ('d', 't')))", "lax.pmax(jnp.max({a}, axis=-1), '{i}')",
    "lax.pmin({a}, '{i}')", "looked_up({a}, {b}[:, 0].astype(jnp.int32) % 7, '{i}')",
    "lax.psum(looked_up({a}, jnp.arange(3), '{i}'), '{i}')",
    "lax.psum(looked_up({a}, {b}[0].astype(jnp.int32) % 7, '{i}'), '{i}')",
    "picked({a}, {b}[:, 0].astype(jnp.int32) % 9, '{i}')",
    "lax.psum(picked({a}, {b}[:, 0].astype(jnp.int32) % 9, '{i}'), '{i}')", "softmax_over({a}, '{i}')",
    "rolled({a}, '{i}')", "jax.vmap(lambda v: lax.psum(v, 'i'), axis_name='i')({a})",
    "jax.vmap(lambda v: lax.pmean(v, ('i', '{i}')), axis_name='i')({a})",
    "jax.vmap(lambda v: v * lax.axis_size('i') + lax.axis_index('i'), axis_name='i')({a})",
    "jax.vmap(lambda v: lax.all_gather(v, 'i'), axis_name='i')({a})",
    "jax.vmap(lambda v: lax.all_gather(v, '{i}', tiled=True))({a})",
    "jax.vmap(lambda v: lax.psum_scatter(v, '{i}', tiled=True), in_axes=1, out_axes=1)({a})",
]  # fmt: skip
#: Dimensions counted from the end: JAX before 0.12 does not compile them.
FROM_THE_END = [
    "lax.psum_scatter({a}, '{i}', scatter_dimension=-1, tiled=True)",
    "lax.psum_scatter({a}, '{i}', scatter_dimension=-2, tiled=True)",
    "lax.psum_scatter({a}[:, :4], 't', scatter_dimension=-1)", "lax.all_to_all({a}, '{i}', -1, 0, tiled=True)",
    "lax.all_to_all({a}, '{i}', 0, -1, tiled=True)", "lax.all_to_all({a}, '{i}', -2, -1, tiled=True)",
    "lax.all_to_all({a}[:, :4], 't', -1, 0)",
]  # fmt: skip
#: Functions that the programs call.
PRELUDE = """
def pairs():
    return [[0, 1], [2, 3]] if lax.axis_size("t") == 4 else None


def looked_up(table, ids, axis):
    local = ids - lax.axis_index(axis) * table.shape[0]
    known = (local >= 0) & (local < table.shape[0])
    rows = jnp.take(table, jnp.clip(local, 0, table.shape[0] - 1), axis=0)
    return jnp.where(known.reshape(known.shape + (1,) * (rows.ndim - 1)), rows, 0.0)


def picked(logits, labels, axis):
    local = labels - lax.axis_index(axis) * logits.shape[1]
    known = (local >= 0) & (local < logits.shape[1])
    rows = jnp.take_along_axis(logits, jnp.where(known, local, 0)[:, None], axis=1)[:, 0]
    return rows * known


def softmax_over(x, axis):
    top = lax.pmax(jnp.max(x, axis=-1, keepdims=True), axis)
    exps = jnp.exp(x - top)
    return exps / lax.psum(jnp.sum(exps, axis=-1, keepdims=True), axis)


def rolled(x, axis):
    size = lax.axis_size(axis)
    edge = lax.ppermute(x[-1:], axis, [(n, (n + 1) % size) for n in range(size)])
    return jnp.roll(x, 1, axis=0).at[:1].set(edge)
"""
