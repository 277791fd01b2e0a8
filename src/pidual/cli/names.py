"""Names of methods, networks and formats, for help and first checks without torch and pandas.

Tests compare them with those of `learn.methods`, `learn.nets` and `data.exports`.
"""

METHOD_NAMES = (
    *("ce", "forward_t", "co_teaching", "divide_mix", "elr", "elr_plus", "sop", "sop_plus", "cores", "cores_star"),
    *("pes", "pes_semi", "het", "het_xl", "tram", "tram_plus_plus", "afm", "distill_pi", "pi_dual", "pi_dual_plus"),
    "latent_truth",
)
NETWORK_NAMES = ("mlp", "small_cnn", "wrn_28_10", "resnet50", "resnet34", "preact_resnet18")
LIBRARIES = ("torchvision", "timm")
FORMATS = (
    *("label-studio", "label-studio-min", "argilla", "doccano", "prodigy", "potato", "inspect", "promptfoo"),
    *("deepeval", "lm-eval", "hf", "table"),
)
