"""lensons beside its neighbours: ratios inside one run, so that anybody can run them. ``nox -s bench``."""
