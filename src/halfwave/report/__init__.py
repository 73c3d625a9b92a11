"""Tables, plots and pages, from result files only."""
