"""Pi-DUAL in a LightningModule, for the Trainer of the package `lightning` (which pidual does not need)."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pidual import PiDualLoss, make_crowd

crowd = make_crowd(noise=0.5, seed=0)  # 600 items, three answers each by 30 people; half of the labels are wrong
table = crowd.frame
seconds = torch.tensor(table["seconds"].to_numpy()).log()
data = TensorDataset(
    torch.tensor(crowd.x[table["item"]]),
    torch.tensor(table["label"].to_numpy()),
    torch.tensor(table["annotator"].cat.codes.to_numpy()),
    (seconds - seconds.mean()) / seconds.std(),
    torch.arange(len(table)),
)


class WithPiDual(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, 4))
        self.pi_dual = PiDualLoss(n_classes=4, codes=[30], numbers=1, random_pi=8, n_rows=len(data), width=256)

    def training_step(self, batch):
        x, y, codes, numbers, index = batch
        return self.pi_dual(self.f(x), y, codes=codes, numbers=numbers, index=index)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


torch.manual_seed(0)
module = WithPiDual()
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = lightning.Trainer(max_epochs=10, accelerator="cpu", **quiet)
trainer.fit(module, DataLoader(data, batch_size=64, shuffle=True))
correct = module.f(torch.from_numpy(crowd.x_test)).argmax(1) == torch.from_numpy(crowd.y_test)
print(f"test accuracy: {correct.float().mean():.3f}")
