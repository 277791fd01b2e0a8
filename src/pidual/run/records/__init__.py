"""What the files of a run hold: one class for each is what writes it, what checks it and what reads it.

reading     how records are read, and what a message says where one is not what it should be
config      config.json, model.json, lines of metrics.jsonl, the resume point, notes of Parquet files
summary     summary.json
"""
