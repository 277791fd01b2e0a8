"""What several methods share.

memory        SampleMemory: a value per training row
processes     gather, sum_over_processes, of_first_process, kept_mean
monte_carlo   Draws, covariance, covariance_rank, log_mean_probability
networks      second_network, first_network, reinitialise, classifier, last_stage, log_mean_softmax, update_average
phases        epoch_after, growth
pi_tower      PITower: logits from features and PI
selection     small_loss, clean_posterior, class_weights
mixing        mixup, sharpen, half, repeated
"""

from .memory import SampleMemory
from .mixing import half, mixup, repeated, sharpen
from .monte_carlo import Draws, covariance, covariance_rank, log_mean_probability
from .networks import (
    classifier,
    first_network,
    last_stage,
    log_mean_softmax,
    reinitialise,
    second_network,
    update_average,
)
from .phases import epoch_after, growth
from .pi_tower import PITower
from .processes import gather, kept_mean, n_processes, of_first_process, sum_over_processes
from .selection import class_weights, clean_posterior, small_loss

__all__ = [
    "Draws",
    "PITower",
    "SampleMemory",
    "class_weights",
    "classifier",
    "clean_posterior",
    "covariance",
    "covariance_rank",
    "epoch_after",
    "first_network",
    "gather",
    "growth",
    "half",
    "kept_mean",
    "last_stage",
    "log_mean_probability",
    "log_mean_softmax",
    "mixup",
    "n_processes",
    "of_first_process",
    "reinitialise",
    "repeated",
    "second_network",
    "sharpen",
    "small_loss",
    "sum_over_processes",
    "update_average",
]
