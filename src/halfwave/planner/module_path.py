"""ModulePath: which module of a model is at work, in the forward and in the backward pass."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

# (phase, name of the module); the model itself has the name "".
Place = tuple[str, str]


class ModulePath:
    """Follows a model through one training step and calls `moved(place)` whenever another module goes on.

    Forward: from a module's call to its return. Backward: a module begins when the gradient of its result is complete,
    and goes on until another one begins. Neither adds an operator or keeps a tensor alive. Blocks that recompute their
    forward pass are at work in the backward phase.
    """

    def __init__(self, moved: Callable[[Place], None]) -> None:
        self.place: Place = ("forward", "")
        self._moved = moved
        self._stack: list[str] = []
        self._last: Callable[[], Any] = lambda: None  # weak reference to the newest result

    @contextmanager
    def follow(self, model: nn.Module) -> Iterator[None]:
        """Within, `place` is where the model is."""
        handles = []
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(self._entering(name)))
            handles.append(module.register_forward_hook(self._leaving(name), always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def enter(self, phase: str) -> None:
        """Begin a phase: forward, backward or update."""
        self._move((phase, ""))

    def _move(self, place: Place) -> None:
        self.place = place
        self._moved(place)

    def _entering(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: Any) -> None:
            self._stack.append(name)
            self._move((self.place[0], name))

        return hook

    def _leaving(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: Any, result: Any) -> None:
            self._stack.pop()
            self._move((self.place[0], self._stack[-1] if self._stack else ""))
            for tensor in tree_leaves(result):
                # A container's result is that of its last child, which knows better.
                if isinstance(tensor, Tensor) and tensor.requires_grad and self._last() is not tensor:
                    self._last = weakref.ref(tensor)
                    tensor.register_hook(lambda _: self._move(("backward", name)))

        return hook
