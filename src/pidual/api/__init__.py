"""What users import: fits, runs, the scikit-learn classifier, and judgements without a fit."""
