"""Integer sets, on isl: predicates as sets, their points in order, what one implies of another."""
