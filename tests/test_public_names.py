import pidual


def test_all_is_sorted_and_real():
    assert [name for name in pidual.__all__ if not hasattr(pidual, name)] == []
    assert pidual.__all__ == sorted(pidual.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))
    assert set(pidual.__all__) == set(pidual._HOMES)
