"""Is the program that is timed the right one?

same_step: without dropout, a step of a batch gives the losses and weights that the plain model's own step gives.
same_course: with dropout, a program that is timed (compiled, captured into a graph) moves the weights about as far as the
plain batch and reaches about the same losses."""
import copy

import torch

from batched import Batch, Layout, make_losses
from step import Step, new_model, random_batch

SMALL = {"nnch": {"batch": 4, "blocks": 2}, "listops": {"batch": 3, "blocks": 2, "length": 120}}


def same_step(shape, attention, form, device):
    """None, or what differs. In double the two agree to rounding; in f32 the batch is as close to double as rounding allows."""
    torch.manual_seed(5)
    models = [new_model(shape, attention, 0.0) for _ in range(3)]
    batches = [random_batch(shape, attention) for _ in models]
    layout, expected_losses, expected_weights = Layout(models[0]), [], []
    for model, (tokens, labels) in zip(models, batches):
        plain = copy.deepcopy(model).to(device, torch.double)
        expected_losses.append(Step(plain, tokens.to(device), labels.to(device)).run().detach())
        expected_weights.append(layout.row(plain))
    for dtype, tolerance in ((torch.double, 1e-10), (torch.float32, 5e-6)):
        losses = make_losses(models[0], attention, form, 0.0, device, dtype)
        if losses is None:
            return None
        batch = Batch(models, batches, device, dtype)
        found = batch.step(losses)
        for what, is_, should in (("losses", found, expected_losses), ("weights", batch.weights, expected_weights)):
            error = (is_.detach().double() - torch.stack(should)).abs().max().item()
            if not error <= tolerance:
                return f"{attention}, form '{form}', {dtype}: {what} differ by {error:.1e}, more than {tolerance:.0e}"
    return None


def course(batches, run, steps=3):
    """From the weights the batches have now: the mean loss of the last step and the mean distance the weights have moved.
    The weights are put back."""
    before = [batch.weights.detach().clone() for batch in batches]
    for _ in range(steps):
        losses = run()
    moved = torch.cat([(batch.weights.detach() - old).norm(dim=1) for batch, old in zip(batches, before)])
    result = torch.cat(losses).mean().item(), moved.mean().item()
    with torch.no_grad():
        for batch, old in zip(batches, before):
            batch.weights.copy_(old)
    return result


def same_course(found, expected):
    """None, or what differs. Dropout differs between programs, so this finds wrong programs, not rounding."""
    for what, is_, should, tolerance in zip(("loss", "distance"), found, expected, (0.06, 0.1)):
        if not abs(is_ - should) <= tolerance * should:
            return f"after some steps the {what} is {is_:.4g} and not {should:.4g}"
    return None
