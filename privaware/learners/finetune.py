"""Private fine-tuning of a network that was pretrained on synthetic images: first its head, then its last blocks.

1. The head: the learner `linear` is trained on the features `prior`, with full batches and closed-form gradient norms.
   Its weights become the output layer of the pretrained network, which reads whitened feature maps of several depths.
2. The last blocks: the output layer and all blocks after the first `frozen` ones are trained by clipped noisy gradient
   descent on Poisson samples, with a decreasing learning rate. The exponential moving average of the weights is
   released.

If the prior is mirrored, outputs are the mean over an image and its mirror image.

Paper: Tang et al. 2023, Differentially Private Image Classification by Learning Priors from Random Processes,
arXiv:2306.06076, for fine-tuning from synthetic images; De et al. 2022, arXiv:2204.13650, for copies and averages. The
head on several whitened depths and its separate phase are this package's: docs/results/prior.md.
Privacy: (epsilon, delta) for one row added or removed. Both phases are one mechanism. Its cost is the composition of
`head_steps` Gaussian releases at noise multiplier `share * noise` and of `steps` Poisson-sampled Gaussian releases at
noise multiplier `noise`. A row's clipped gradient changes a sum by at most the clipping norm; the mean gradient over a
row's copies is clipped as one vector.
Use when: a network trained on the images themselves is wanted and there is a GPU. On CIFAR-10 `linear` on the feature
`prior_views` is more accurate at every epsilon, and faster: docs/results/prior.md.

`privaware fit cifar10 --epsilon 8 --learner finetune --device cuda --set precision=bf16`

>>> from privaware.schema import Schema
>>> schema = Schema(form="image", shape=(3, 32, 32), classes=("cat", "dog"), rows=50_000)
>>> Finetune(head_steps=50, steps=10, share=8.0, prior={"depths": [5], "pools": [1]}).cost(schema, noise=2.0)
Composed(events=(Repeated(event=Gaussian(noise=16.0), count=50), \
Repeated(event=Sampled(event=Gaussian(noise=2.0), rate=0.08192), count=10)))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from privaware import features, models
from privaware._validate import expect, expect_between, expect_count, expect_in, expect_one_of
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import NOTHING, Event
from privaware.features.prior import Prior
from privaware.features.prior_inputs import PriorInputs
from privaware.learners import Learner, find_learner
from privaware.learners._fixed_features import row_features
from privaware.learners._networks.augmentation import shifted, shifted_mirrored
from privaware.learners._networks.journal import checkpoint_in
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Finetune"]

LR = 8.4
"""Default of the product `lr * noise * norm` at batch size `LR_BATCH`, where `noise` is the noise multiplier.

docs/results/prior.md compares other values.
"""

LR_BATCH = 4096
"""Batch size at which `LR` holds; the default learning rate is proportional to the batch size."""

LARGEST_LR = 5.0
"""Upper bound on the default of `lr * norm`."""


@dataclass(frozen=True, kw_only=True)
class Finetune(Learner):
    """Private fine-tuning of the pretrained network of the feature `prior`.

    Parameters
    ----------
    prior : dict, optional
        Settings of the feature `prior`, such as {"network": "glyphs"}.
    head_steps : int
        Number of full-batch steps of the first phase, which trains the head.
    share : float
        Noise multiplier of the first phase divided by the noise multiplier of the second phase.
    steps : int
        Number of steps of the second phase.
    batch : int
        Expected batch size of the second phase.
    norm : float
        Clipping norm of the second phase.
    lr : float, optional
        Learning rate of the second phase; by default `LR * batch / LR_BATCH / (noise * norm)`, at most
        `LARGEST_LR / norm`, with LR = 8.4, LR_BATCH = 4096 and LARGEST_LR = 5.
    head_rate : float
        Learning rate of the head in the second phase, as a multiple of `lr`.
    frozen : int, optional
        Number of first blocks that keep their weights, together with the layer before all blocks; by default the blocks
        of the first of three stages. 0 trains everything.
    copies : int
        Number of randomly shifted copies of each image, or 1 for the image itself. Every second copy is mirrored if
        `copies` is even and the prior is mirrored.
    average, schedule
        The average of weights that is released, and the schedule of the learning rate. `average` is a fraction of last
        steps, or a table such as {"name": "ema", "decay": 0.98}; `schedule` is a table such as {"name": "cosine",
        "end": 0.1}.
    precision : str
        "float32", "tf32" or "bf16". In a lower precision products are rounded, and gradients are clipped slightly below
        `norm`.
    overflow : float
        Bound, charged to delta, on the probability that a Poisson sample does not fit into its batch of fixed shape,
        which is faster on a GPU. 0 for batches of any size.
    initial : Model, optional
        A model of this learner from whose weights the second phase starts; the first phase is then skipped.
    device, progress, journal
        The device, a progress callback and a folder from which an interrupted run resumes. They do not change the
        released model.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    on_ranks: ClassVar[bool] = True

    prior: dict[str, Any] | None = None
    head_steps: int = 100
    share: float = 9.0
    steps: int = 1000
    batch: int = 4096
    norm: float = 1.0
    lr: float | None = None
    head_rate: float = 1.0
    frozen: int | None = None
    copies: int = 1
    average: float | dict[str, Any] = field(default_factory=lambda: {"name": "ema", "decay": 0.98})
    schedule: dict[str, Any] | None = field(default_factory=lambda: {"name": "cosine", "end": 0.1})
    precision: str = "float32"
    overflow: float = 0.0
    initial: Model | None = field(default=None, repr=False, compare=False)
    device: str = field(default="cpu", repr=False, compare=False)
    progress: Callable[[int, int, float], None] | None = field(default=None, repr=False, compare=False)
    journal: Path | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        expect(self.prior is None or isinstance(self.prior, dict), "finetune", "prior as a table", self.prior)
        expect_count("finetune", head_steps=self.head_steps, steps=self.steps, batch=self.batch, copies=self.copies)
        expect_count("finetune", 0, optional=True, frozen=self.frozen)
        expect_between("finetune", 1e-3, 1e6, share=self.share)
        expect_between("finetune", 1e-9, 1e9, norm=self.norm)
        expect_between("finetune", 0, 1e6, head_rate=self.head_rate)
        expect_between("finetune", 1e-9, 1e9, optional=True, lr=self.lr)
        expect_one_of("finetune", ("float32", "tf32", "bf16"), precision=self.precision)
        expect_in("finetune", "[0, 1)", overflow=self.overflow)

    def cost(self, schema: Schema, noise: float) -> Event:
        self._frozen(self._architecture(schema))  # raises before any charge if the settings do not fit
        head = NOTHING if self.initial else self._head().cost(schema, self.share * noise)
        return head + self._descent(schema, noise).cost(noise)

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        import torch

        from privaware.descent import Callbacks

        schema = data.schema
        module = self._network(schema)
        saved = checkpoint_in(self.journal)
        if self.initial is not None:
            module.load_state_dict(self.initial.torch_tensors())
        elif saved is None or not saved.path.exists():  # otherwise the checkpoint contains the head
            head = self._head().run(data, self.share * noise, rng)
            module.load_state_dict(head.torch_tensors(), strict=False)
        trained = self._descent(schema, noise).run(
            module,
            torch.from_numpy(row_features(self._features, data)),
            torch.from_numpy(data.y),
            noise=noise,
            rows=schema.rows,
            rng=rng,
            device=self.device,
            callbacks=Callbacks(progress=self.progress, checkpoint=saved),
        )
        described = self._architecture(schema) | {"mirror": self._prior.mirror}
        return Model.of(trained, schema, self._features, described)

    def truncated(self, schema: Schema, share: float, initial: Model | None = None) -> Self:
        """Return this learner with a fraction `share` of the steps of its second phase, rounded up and at least one.

        If the model `initial` is given, the second phase starts from its weights, and the first phase is skipped.
        Otherwise the first phase has all its steps. `schema` is not used.
        """
        return replace(self, steps=max(1, math.ceil(share * self.steps)), initial=initial)

    def learning_rate(self, noise: float) -> float:
        """Return the learning rate of the second phase.

        It is `lr` if given, else `LR * batch / LR_BATCH / (noise * norm)`, at most `LARGEST_LR / norm`. `noise` is the
        noise multiplier of the second phase.
        """
        if self.lr is not None:
            return self.lr
        return min(LR * self.batch / LR_BATCH / max(noise * self.norm, 1e-9), LARGEST_LR / self.norm)

    @property
    def _prior(self) -> Prior:
        return features.build({"name": "prior"} | (self.prior or {}))

    @property
    def _features(self) -> tuple[Any, ...]:
        return (PriorInputs(),)

    def _head(self) -> Any:
        """Return the learner of the first phase: `linear` on the features of the prior, with `head_steps` steps."""
        described = [features.describe(self._prior)]
        return find_learner("linear")(features=described, steps=self.head_steps, device=self.device)  # type: ignore[call-arg]

    def _architecture(self, schema: Schema) -> dict[str, Any]:
        if schema.form != "image" or schema.shape[0] not in (1, 3):
            shape = f" of shape {list(schema.shape)}" if schema.form == "image" else ""
            raise WrongInput(f"finetune: expected images of 1 or 3 channels, got {schema.form} data{shape}")
        return models.parse(self._prior.architecture(len(schema.classes))).describe()

    def _frozen(self, architecture: dict[str, Any]) -> int:
        """Return the number of blocks that keep their weights; by default all blocks of the first stage.

        `architecture` describes the network, whose depth gives the number of blocks in each of three stages. Raise
        `WrongInput` if `frozen` exceeds the number of blocks.
        """
        per_stage = (architecture["depth"] - 4) // 6
        if self.frozen is None:
            return per_stage
        expect(self.frozen <= 3 * per_stage, "finetune", f"frozen as at most {3 * per_stage} blocks", self.frozen)
        return self.frozen

    def _network(self, schema: Schema) -> Any:
        """Return the pretrained network with an output layer of zeros and with its first blocks frozen.

        The layer before the blocks is frozen too, unless the number of frozen blocks is 0.
        """
        described = self._architecture(schema)
        network = models.build(described, device="meta")
        zeros = {name: value.new_zeros(value.shape, device="cpu") for name, value in network.state_dict().items()}
        network.load_state_dict(zeros | self._prior.network_tensors(), assign=True)
        network.requires_grad_(True)
        count = self._frozen(described)
        for part in (network.stem, *network.blocks)[: count + 1 if count else 0]:  # type: ignore[misc, operator]
            part.requires_grad_(False)
        return network

    def _descent(self, schema: Schema, noise: float) -> Any:
        from privaware import descent

        rate = min(1.0, self.batch / schema.rows)
        epoch = math.ceil(1 / rate)
        schedule: dict[str, Any] = (
            {} if self.schedule is None else {"lr_schedule": descent.build_schedule(self.schedule, epoch)}
        )
        mirrored = self._prior.mirror and self.copies % 2 == 0
        return descent.Descent(
            steps=self.steps,
            sampler=descent.FullBatch() if rate == 1 else descent.Poisson(rate=rate),
            clip=descent.flat(self.norm),
            update=self._update(schema, noise),
            average=descent.build_average(self.average),
            copies=self.copies,
            augment=None if self.copies == 1 else shifted_mirrored if mirrored else shifted,
            precision=self.precision,
            overflow=self.overflow,
            **schedule,
        )

    def _update(self, schema: Schema, noise: float) -> Any:
        from privaware import descent

        lr = self.learning_rate(noise)
        if self.head_rate == 1:
            return descent.sgd(lr)
        output: Any = models.build(self._architecture(schema), device="meta").output
        return descent.two_rates(lr, self.head_rate, sum(p.numel() for p in output.parameters()))
