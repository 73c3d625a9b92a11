"""halfwave: neural operators in mixed precision, with bounds that hold."""
