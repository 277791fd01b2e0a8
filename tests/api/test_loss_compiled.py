"""PiDualLoss under torch.compile, which cannot read the checks of shapes that tests have elsewhere."""

import pytest
import torch
from own_loop import make, step, tensors

from pidual import UsageError

pytestmark = pytest.mark.shapes_unchecked

x, y, pi = tensors()


@pytest.mark.filterwarnings("ignore")  # of torch, about itself
@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_it_trains_as_it_does_otherwise(backend):
    plain, compiled = make(), make()
    fast = torch.compile(compiled[1], backend=backend)
    for each, loss in ((plain, plain[1]), (compiled, fast)):
        optimizer = torch.optim.SGD([*each[0].parameters(), *each[1].parameters()], lr=0.1)
        for _ in range(3):
            step(each[0], loss, optimizer, slice(None))
    for one, other in zip(
        (*plain[0].parameters(), *plain[1].parameters()),
        (*compiled[0].parameters(), *compiled[1].parameters()),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)
    with pytest.raises(UsageError, match="index has values"):
        fast(compiled[0](x), y, **pi | {"index": pi["index"] + 1})
    torch.compiler.reset()
