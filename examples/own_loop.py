"""Pi-DUAL inside a plain PyTorch training loop: wrap your network, replace your loss, predict with your network."""

import torch
from torch import nn
from torch.nn import functional as F

from pidual import AnnotationTable, PiDual
from pidual.data.datasets.synthetic import make_crowd
from pidual.data.pi import PIEncoder
from pidual.learn.batch import Rows, Spec

crowd = make_crowd(n_items=600, n_annotators=30, noise=0.5, seed=0)  # half of the labels are wrong
table = AnnotationTable.from_frame(crowd.frame, pi=["annotator", "seconds"])
encoder = PIEncoder().fit(table)
rows = Rows.build(crowd.x, crowd.frame["item"].to_numpy(copy=True), table.label_codes, encoder.transform(table))
spec = Spec(len(rows), len(table.classes), encoder.cardinalities, encoder.n_numbers)


def train(net, parameters, loss_of):
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-4)
    for _ in range(20):
        for index in torch.randperm(len(rows)).split(64):
            loss = loss_of(rows.select(index))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
    predicted = net(torch.from_numpy(crowd.x_test)).argmax(1)
    return (predicted == torch.from_numpy(crowd.y_test)).float().mean().item()


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, 4))
plain = train(net, list(net.parameters()), lambda batch: F.cross_entropy(net(batch.x), batch.y_noisy))

f = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, 4))
method = PiDual(f, spec, width=128, random_pi=0)
accuracy = train(f, list(method.parameters()), lambda batch: method(batch)["loss"])

print(f"test accuracy: cross-entropy {plain:.3f}, Pi-DUAL {accuracy:.3f}")
