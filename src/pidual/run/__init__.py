"""The run directory: what each of its files holds, who may write there, and how it is read. No torch.

records       what the files hold: one class for each is its writer, its check and its reader
files         the directory read, each file checked
predictions   one row per annotation
decisions     what reviewers decided
lifecycle     who writes there now, and how a new run replaces an old one or goes on
"""
