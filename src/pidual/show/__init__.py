"""What people see of a run: the report, the review page, and what is exported."""
