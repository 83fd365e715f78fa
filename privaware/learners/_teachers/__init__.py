"""What PATE and Private-kNN share: teachers, neighbours, noisy votes, and the student that learns from the votes."""
