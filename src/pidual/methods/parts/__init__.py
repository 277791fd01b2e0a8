"""What several methods share.

memory        SampleMemory: a value per training row
processes     gather, sum_over_processes, of_first_process, kept_mean
monte_carlo   Draws, covariance_rank, mean_probability
networks      second_network, fresh_copy, reinitialise, classifier, last_stage, update_average
phases        Phases: what each epoch is for
pi_tower      PITower: logits from features and PI
pi_groups     which parameters of f and of PI networks decay
selection     small_loss, clean_posterior, class_weights
mixing        mixup, sharpen, half, repeated
views         consistency: of the answers on two views
gradients     clip_gradients
"""

from .memory import SampleMemory
from .mixing import half, mixup, repeated, sharpen
from .monte_carlo import Draws, covariance_rank, mean_probability
from .networks import classifier, last_stage, reinitialise, second_network, update_average
from .phases import Phases
from .pi_groups import pi_groups
from .pi_tower import PITower
from .processes import gather, kept_mean, n_processes, of_first_process, sum_over_processes
from .selection import class_weights, clean_posterior, small_loss
from .views import consistency

__all__ = [
    "Draws",
    "PITower",
    "Phases",
    "SampleMemory",
    "class_weights",
    "classifier",
    "clean_posterior",
    "consistency",
    "covariance_rank",
    "gather",
    "half",
    "kept_mean",
    "last_stage",
    "mean_probability",
    "mixup",
    "n_processes",
    "of_first_process",
    "pi_groups",
    "reinitialise",
    "repeated",
    "second_network",
    "sharpen",
    "small_loss",
    "sum_over_processes",
    "update_average",
]
