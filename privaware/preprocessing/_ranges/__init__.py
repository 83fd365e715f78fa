"""Variants of private ranges; a plan takes the variant with the smallest privacy cost together with the learner."""
