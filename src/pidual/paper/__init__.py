"""The paper's harness: protocol, grids, numbers, recipes, datasets, analyses."""
