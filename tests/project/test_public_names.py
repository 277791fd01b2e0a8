import pidual


def test_all_is_sorted_and_real():
    assert [name for name in pidual.__all__ if not hasattr(pidual, name)] == []
    assert pidual.__all__ == sorted(pidual.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))
    assert set(pidual.__all__) == set(pidual._HOMES)


def test_the_public_names_are_these():
    assert pidual.__all__ == [
        "METHODS",
        "AnnotationTable",
        "Callback",
        "CrowdClassifier",
        "DataError",
        "DataWarning",
        "DivergedError",
        "FitOptions",
        "Inputs",
        "Interrupted",
        "LatentTruth",
        "Method",
        "PiDual",
        "PiDualClassifier",
        "PiDualLoss",
        "PidualError",
        "Predictions",
        "Run",
        "RunError",
        "TooManyIssues",
        "UsageError",
        "find_label_issues",
        "fit_table",
        "judge",
        "judge_pairs",
        "load_dataset",
        "load_inputs",
        "make_crowd",
        "merge",
        "read_table",
    ]
