"""The language itself: index expressions, predicates, types, terms, their notation, and errors with source locations."""
