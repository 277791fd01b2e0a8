"""Pi-DUAL with the Trainer of Hugging Face: a model that returns the loss, where there are labels, and logits."""

import tempfile

import numpy as np
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from pidual import PiDualLoss, make_crowd

crowd = make_crowd(noise=0.5, seed=0)  # 600 items, three answers each by 30 people; half of the labels are wrong
table = crowd.frame
seconds = np.log(table["seconds"])
columns = {
    "x": crowd.x[table["item"]],
    "labels": table["label"].to_numpy(),
    "codes": table["annotator"].cat.codes.to_numpy(),
    "numbers": ((seconds - seconds.mean()) / seconds.std()).to_numpy(np.float32),
    "index": np.arange(len(table)),
}
rows = [{name: values[i] for name, values in columns.items()} for i in range(len(table))]


class WithPiDual(nn.Module):
    """Any network, which predicts alone and learns through Pi-DUAL; the Trainer optimises and saves both."""

    def __init__(self, f, loss):
        super().__init__()
        self.f, self.pi_dual = f, loss

    def forward(self, x, labels=None, codes=None, numbers=None, index=None):
        logits = self.f(x)
        if labels is None:
            return {"logits": logits}
        loss = self.pi_dual(logits, labels, codes=codes, numbers=numbers, index=index)
        return {"loss": loss, "logits": logits}


torch.manual_seed(0)
f = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, 4))
loss = PiDualLoss(n_classes=4, codes=[30], numbers=1, random_pi=8, n_rows=len(rows), width=256)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        num_train_epochs=10,
        per_device_train_batch_size=64,
        learning_rate=2e-3,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        use_cpu=True,
    )
    trainer = Trainer(WithPiDual(f, loss), arguments, train_dataset=rows)
    trainer.train()
    predicted = trainer.predict([{"x": x} for x in crowd.x_test]).predictions.argmax(1)

print(f"test accuracy: {(predicted == crowd.y_test).mean():.3f}")
