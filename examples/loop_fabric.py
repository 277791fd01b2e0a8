"""Pi-DUAL in a Lightning Fabric loop: any number of devices and processes, mixed precision."""

import torch
from lightning_fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pidual import PiDualLoss, make_crowd

crowd = make_crowd(noise=0.5, seed=0)  # 600 items, three answers each by 30 people; half of the labels are wrong
table = crowd.frame
x = torch.tensor(crowd.x[table["item"]])
y = torch.tensor(table["label"].to_numpy())
who = torch.tensor(table["annotator"].cat.codes.to_numpy())
seconds = torch.tensor(table["seconds"].to_numpy()).log()
seconds = (seconds - seconds.mean()) / seconds.std()
data = TensorDataset(x, y, who, seconds, torch.arange(len(y)))

fabric = Fabric(accelerator="cpu")  # or precision="bf16-mixed", devices=4
fabric.launch()
fabric.seed_everything(0, verbose=False)
f = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, 4))
loss = PiDualLoss(n_classes=4, codes=[30], numbers=1, random_pi=8, n_rows=len(data), width=256)
optimizer = torch.optim.SGD([*f.parameters(), *loss.parameters()], lr=0.05, momentum=0.9)
f, loss = fabric.setup_module(f), fabric.setup_module(loss)  # both have parameters
loss.mark_forward_method("gate")
optimizer = fabric.setup_optimizers(optimizer)
loader = fabric.setup_dataloaders(DataLoader(data, batch_size=64, shuffle=True))

for _ in range(10):
    for x_, y_, codes, numbers, index in loader:
        optimizer.zero_grad()
        fabric.backward(loss(f(x_), y_, codes=codes, numbers=numbers, index=index))
        optimizer.step()

correct = f(torch.from_numpy(crowd.x_test)).argmax(1) == torch.from_numpy(crowd.y_test)
gate = loss.gate(codes=who, numbers=seconds, index=torch.arange(len(y)))
wrong = torch.tensor((table["label"] != table["y"]).to_numpy())
fabric.print(f"test accuracy: {correct.float().mean():.3f}")
fabric.print(f"mean gate of wrong labels {gate[wrong].mean():.2f}, of right ones {gate[~wrong].mean():.2f}")
