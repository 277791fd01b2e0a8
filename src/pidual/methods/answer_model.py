"""The answer model: how an answer comes from the truth and from the privileged information. Nothing in it sees x.

    P(l | k, a) = softmax_l( (b + s(a)) [l = k] + T[k, l] + v(a)[l] + U_annotator[k, l] )

s: skill, a number per annotator plus a small network of the other PI; T: confusions everybody makes; v: favourite
answers, of an annotator and of the other PI; U: an annotator's own confusions. All are zero at the start, so that PI
must earn its influence, and have Gaussian priors of precision 1 (U: 5).

With more than FULL_CLASSES classes T is reduced to T[k, l] = t_k [l = k] + c_l, and there is no U: a row then costs K
numbers instead of K^2.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from ..batch import PI, Spec

FULL_CLASSES = 32
FAVOURITES_BELOW = 2**22  # annotators x classes; beyond, an annotator has a skill only
SPARSE_ABOVE = 2**21  # numbers of all annotators, beyond which a step moves those of its own annotators alone
CODE_SCALE = 0.1
TINY = 1e-30


class AnswerModel(nn.Module):
    """M answer models, one for each member of a population.

    Parameters
    ----------
    spec : Spec
        Classes, and which PI there is; the column "annotator" says who answered.
    n_members : int
    base : float
        b: the skill that annotators begin with, as a logit.
    own_confusions : bool
        Whether annotators have confusions of their own, U.
    width : int
        Hidden units of the network of the other PI.
    precisions : mapping
        Of the priors: skill, favourites, confusions, own_confusions, pi.
    """

    answers: Tensor

    def __init__(
        self,
        spec: Spec,
        n_members: int,
        *,
        base: float = 2.0,
        own_confusions: bool = False,
        width: int = 16,
        precisions: dict[str, float] | None = None,
    ) -> None:
        super().__init__()
        m, k = n_members, spec.n_classes
        self.n_members, self.n_classes, self.base = m, k, base
        self.precisions = PRECISIONS | (precisions or {})
        self.column = spec.code_names.index("annotator") if "annotator" in spec.code_names else None
        n = spec.cardinalities[self.column] if self.column is not None else 0
        self.full = k <= FULL_CLASSES
        self.per_person = 1 + (k if n * k <= FAVOURITES_BELOW else 0)
        self.people = nn.Parameter(torch.zeros(n + 1, m * self.per_person)) if n else None
        self.sparse = n * m * self.per_person > SPARSE_ABOVE
        self.confusions = nn.Parameter(torch.zeros(m, k, k) if self.full else torch.zeros(m, 2, k))
        own = own_confusions and self.full and n > 0
        self.own = nn.Parameter(torch.zeros(n + 1, m * k * k)) if own else None
        self.register_buffer("answers", torch.ones(n + 1 if self.sparse else 0))
        self.add_pi_network(spec, width)

    def add_pi_network(self, spec: Spec, width: int) -> None:
        """A network of every PI column but the annotator, for each member: one hidden layer, zero at the start."""
        m = self.n_members
        self.others = [at for at in range(len(spec.cardinalities)) if at != self.column]
        sizes = [spec.cardinalities[at] + 1 for at in self.others]  # the last code is for unknown categories
        self.offsets = [sum(sizes[:at]) for at in range(len(sizes))]
        self.n_codes = sizes
        self.has_pi = bool(sizes) or spec.n_numbers > 0
        if not self.has_pi:
            return
        # Categories begin nearly equal: many idle ones would drown what the other columns say.
        self.of_codes = nn.Parameter(torch.randn(sum(sizes), m * width) * CODE_SCALE)
        self.of_numbers = nn.Parameter(torch.randn(spec.n_numbers, m * width) / math.sqrt(max(1, spec.n_numbers)))
        self.hidden_bias = nn.Parameter(torch.zeros(m * width))
        self.last = nn.Parameter(torch.zeros(m, width, 1 + self.n_classes))

    def forward(self, a: PI, y: Int[Tensor, " R"], members: Int[Tensor, " M"] | None = None) -> Float[Tensor, "M R K"]:
        """log P(l | k, a) of the given answers l, for every class k; of all members, or of some of them."""
        return self.explain(a, y, members)[1]

    def explain(
        self, a: PI, y: Int[Tensor, " R"], members: Int[Tensor, " M"] | None = None
    ) -> tuple[Float[Tensor, "M R"], Float[Tensor, "M R K"]]:
        """The skill b + s(a) behind the given answers l, and log P(l | k, a) for every class k, in full precision."""
        with torch.autocast(y.device.type, enabled=False):
            return self.explain_fully(a, y, members)

    def explain_fully(
        self, a: PI, y: Int[Tensor, " R"], members: Int[Tensor, " M"] | None = None
    ) -> tuple[Float[Tensor, "M R"], Float[Tensor, "M R K"]]:
        """The same, in the precision of the moment."""
        skill, v = self.skill_and_favourites(a, members)
        t = self.confusions if members is None else self.confusions[members]
        if not self.full:
            return skill, reduced(t, skill, v, y)
        if self.own is None:
            confused, wrong, same = shared(t, v, y)
        else:
            confused, wrong, same = individual(t[:, None] + self.own_rows(a, members), v, y)
        favoured = v.gather(2, y.view(1, -1, 1).expand(len(v), -1, 1))  # v(a)[l]
        right = F.one_hot(y, self.n_classes).to(skill.dtype) * skill[..., None]  # (b + s(a)) [l = k]
        normaliser = torch.logaddexp((wrong + TINY).log(), skill[..., None] + same + v)
        return skill, right + confused + favoured - normaliser

    def skill_and_favourites(
        self, a: PI, members: Tensor | None = None
    ) -> tuple[Float[Tensor, "M R"], Float[Tensor, "M R K"]]:
        """b + s(a), and v(a)."""
        n, k = len(a.codes), self.n_classes
        values = self.confusions.new_zeros(self.n_members, n, 1 + k)
        if self.people is not None:
            if members is None:
                rows = F.embedding(self.annotator(a), self.people, sparse=self.sparse and self.training)
                values = rows.view(n, self.n_members, -1).transpose(0, 1)
            else:
                people = self.people.view(len(self.people), self.n_members, -1)
                values = people[self.annotator(a)[None], members[:, None]]
            values = values if self.per_person > 1 else F.pad(values, (0, k))
        elif members is not None:
            values = values[members]
        if self.has_pi:
            values = values + (self.of_pi(a) if members is None else self.of_pi(a)[members])
        return self.base + values[..., 0], values[..., 1:]

    def of_pi(self, a: PI) -> Float[Tensor, "M R V"]:
        """What the other PI adds to skill and favourites."""
        hidden = self.hidden_bias + a.numbers.to(self.of_numbers.dtype) @ self.of_numbers
        for at, offset, size in zip(self.others, self.offsets, self.n_codes, strict=True):
            code = a.codes[:, at].long()
            hidden = hidden + F.embedding(torch.where(code < 0, size - 1, code) + offset, self.of_codes)
        hidden = hidden.tanh().view(len(a.codes), self.n_members, -1).transpose(0, 1)
        return torch.bmm(hidden, self.last)

    def annotator(self, a: PI) -> Int[Tensor, " R"]:
        """Row of `people` of each answer; the last one is for annotators that are not known."""
        assert self.column is not None
        assert self.people is not None
        code = a.codes[:, self.column].long()
        return torch.where(code < 0, len(self.people) - 1, code)

    def own_rows(self, a: PI, members: Tensor | None = None) -> Float[Tensor, "M R K K"]:
        """U of each answer's annotator."""
        assert self.own is not None
        m, k, who = self.n_members, self.n_classes, self.annotator(a)
        if members is None:
            return F.embedding(who, self.own).view(-1, m, k, k).transpose(0, 1)
        return self.own.view(-1, m, k, k)[who[None], members[:, None]]

    def penalty(self, a: PI, n_items: int) -> Float[Tensor, " M"]:
        """Minus the logarithm of the priors, per item trained on.

        Where a step moves the numbers of its own annotators alone, each answer pays its share of its annotator's prior.
        """
        m, p = self.n_members, self.precisions
        total = p["confusions"] * self.confusions.square().sum((1, 2))
        if self.has_pi:
            total = total + p["pi"] * self.last.square().sum((1, 2))
        if self.own is not None:
            total = total + p["own_confusions"] * self.own.view(len(self.own), m, -1).square().sum((0, 2))
        if self.people is None:
            return total / 2 / n_items
        precision = torch.full((self.per_person,), p["favourites"], device=total.device)
        precision[0] = p["skill"]
        if not self.sparse:
            people = (self.people.view(-1, m, self.per_person).square() * precision).sum((0, 2))
            return (total + people) / 2 / n_items
        who = self.annotator(a)
        rows = F.embedding(who, self.people, sparse=self.training).view(-1, m, self.per_person)
        people = ((rows.square() * precision).sum(2) / self.answers[who][:, None]).sum(0)
        return total / 2 / n_items + people / 2 / max(1, len(who)) * self.answers.sum() / n_items

    def keep(self, members: Sequence[int]) -> None:
        """Leave out all other members."""
        index = torch.tensor(members)
        kept = {
            name: self.by_member(name, value.detach()).index_select(0, index) for name, value in self.named_parameters()
        }
        self.n_members = len(index)
        for name, value in kept.items():
            setattr(self, name, nn.Parameter(value if name in FIRST else value.movedim(0, -2).flatten(-2)))

    def put(self, members: Sequence[int], part: "AnswerModel") -> None:
        """Take over the numbers of these members from a model of them alone."""
        index = torch.tensor(members)
        theirs = dict(part.named_parameters())
        for name, value in self.named_parameters():
            self.by_member(name, value.data).index_copy_(0, index, part.by_member(name, theirs[name].data))
        self.answers.copy_(part.answers)

    def is_finite(self, member: int) -> bool:
        """Whether all numbers of a member are."""
        values = (self.by_member(name, value.data)[member] for name, value in self.named_parameters())
        return all(bool(value.isfinite().all()) for value in values)

    def silence(self, member: int) -> None:
        """Let a member be as at the start, where it knows about no annotator and of no PI."""
        for name, value in self.named_parameters():
            self.by_member(name, value.data)[member].zero_()

    def by_member(self, name: str, value: Tensor) -> Tensor:
        """A parameter with members in the first dimension: a view of it."""
        if name in FIRST:
            return value
        return value.view(*value.shape[:-1], self.n_members, value.shape[-1] // self.n_members).movedim(-2, 0)


# Each of these gives, for the answers l, T[k, l] (M, R, K); the sum of exp(T[k, j] + v[j]) over j not k; T[k, k].


def shared(t: Float[Tensor, "M K K"], v: Float[Tensor, "M R K"], y: Int[Tensor, " R"]) -> tuple[Tensor, Tensor, Tensor]:
    """Confusions that everybody makes."""
    return t[:, :, y].transpose(1, 2), v.exp() @ off_diagonal(t).transpose(1, 2), t.diagonal(dim1=1, dim2=2)[:, None]


def individual(
    t: Float[Tensor, "M R K K"], v: Float[Tensor, "M R K"], y: Int[Tensor, " R"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Confusions of each answer's annotator."""
    confused = t.gather(3, y.view(1, -1, 1, 1).expand(len(t), -1, t.shape[2], 1))[..., 0]
    return confused, torch.einsum("mrl,mrkl->mrk", v.exp(), off_diagonal(t)), t.diagonal(dim1=2, dim2=3)


def reduced(
    t: Float[Tensor, "M 2 K"], skill: Float[Tensor, "M R"], v: Float[Tensor, "M R K"], y: Int[Tensor, " R"]
) -> Float[Tensor, "M R K"]:
    """log P(l | k, a) with confusions T[k, l] = t_k [l = k] + c_l.

    With e_k = exp(c_k + v_k), its denominator is sum_j e_j + e_k (exp(skill + t_k) - 1): one exponential and one
    logarithm for each class.
    """
    t, c = t.unbind(1)  # (M, K) each
    said = y.view(1, -1, 1).expand(len(v), -1, 1)
    of_answer = c[:, y] + v.gather(2, said)[..., 0]
    right = skill + t[:, y]
    e = (v + c[:, None]).exp()
    more = skill.exp()[..., None] * t.exp()[:, None] - 1
    denominator = torch.addcmul(e.sum(2, keepdim=True), e, more)
    log_p = of_answer[..., None] - denominator.clamp(min=TINY).log()
    return log_p.scatter_add(2, said, right[..., None])


def off_diagonal(t: Float[Tensor, "*M K K"]) -> Float[Tensor, "*M K K"]:
    """exp(T[k, l]), and 0 where l = k."""
    return t.exp().masked_fill(torch.eye(t.shape[-1], dtype=torch.bool, device=t.device), 0.0)


FIRST = ("confusions", "last")  # have members in the first dimension, the others side by side in the last one
PRECISIONS = {"skill": 1.0, "favourites": 1.0, "confusions": 1.0, "own_confusions": 5.0, "pi": 1.0}
