"""The devices of a run and the placement of arrays: data parallelism over all devices that JAX
finds.

Parameters are copied to every device, batches are split by document, and XLA sums the gradients.
Several hosts run the same command with three more options: `--coordinator HOST:PORT --processes N
--process-id I`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

# The name of the one axis of a mesh, along which batches are split.
AXIS = "documents"


def join_cluster(coordinator: str | None, processes: int | None, process_id: int | None) -> None:
    """Join the other hosts through `jax.distributed`; does nothing without a coordinator."""
    given = {"coordinator": coordinator, "processes": processes, "process_id": process_id}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == 3:
        return
    if missing:
        raise ValueError(
            "coordinator, processes and process_id: expected all three, missing "
            f"{' and '.join(missing)}"
        )
    # CPUs of several hosts communicate through gloo, which older versions of JAX need as an option.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(coordinator, processes, process_id)


def device_mesh(device: str = "auto") -> Mesh:
    """Return all devices of a kind, on all hosts, as a mesh with one axis.

    >>> device_mesh("cpu").axis_names
    ('documents',)
    """
    if device not in ("auto", "cpu", "gpu"):
        raise ValueError(f"device: expected auto, cpu or gpu, got {device!r}")
    try:
        if device == "auto":
            devices = jax.devices()
        else:
            devices = jax.devices(device)
    except RuntimeError:
        found = sorted({d.platform for d in jax.devices()})
        raise ValueError(
            f"device: expected {device}, but JAX finds only {', '.join(found)}; "
            "a GPU needs its driver and a GPU build of jax (pip install 'jax[cuda12]')"
        ) from None
    return Mesh(np.array(devices), (AXIS,))


def on_every_device(mesh: Mesh | None, tree: Any) -> Any:
    """Copy arrays to every device of the mesh or, without a mesh, to JAX's default device."""
    return jax.tree.map(lambda array: _place(mesh, PartitionSpec(), np.asarray(array)), tree)


def cut_by_document(mesh: Mesh | None, array: NDArray[Any]) -> jax.Array:
    """Split an array along its first axis; every host has all of it and passes its devices their
    parts.
    """
    return _place(mesh, PartitionSpec(AXIS), array)


def _place(mesh: Mesh | None, spec: PartitionSpec, array: NDArray[Any]) -> jax.Array:
    if mesh is None:
        return jnp.array(array)
    return jax.make_array_from_callback(
        array.shape, NamedSharding(mesh, spec), lambda index: array[index]
    )
