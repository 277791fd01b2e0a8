"""The one job: an annotation table and inputs become the files of a run.

options, prepare   table + inputs + options   -> Job          everything is checked here
fit, closed        Job                        -> Fitted       training, or the closed form
predict            Job + Fitted               -> Answers      what the method says about annotations and items
judge              Answers                    -> Results      what looks wrong and why; items, annotators, summary
record             all of it                  -> files        what the directory holds
refit              the same once more, with what reviewers decided
load_model         the trained classifier read back
"""
