def check(*a): return False
