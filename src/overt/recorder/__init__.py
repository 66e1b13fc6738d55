"""Operations and values of somebody's own code, as it runs."""
