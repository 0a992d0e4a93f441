import warnings; warnings.simplefilter('ignore', RuntimeWarning)
import logging; logging.disable(logging.CRITICAL)
import sys
from sim.world import World, place_of
first,n=int(sys.argv[1]),int(sys.argv[2])
import time,collections
t=time.time(); tot=collections.Counter()
for seed in range(first,first+n):
    s,m=place_of(seed, sys.argv[3] if len(sys.argv)>3 else "both")
    log=(lambda l: print(l[:2000])) if len(sys.argv)>4 else None
    t0=time.time()
    try:
        r=World(seed,s,m,log).run()
    except Exception:
        print("SEED",seed,s,m); raise
    tot.update(r.stats)
    tot["seeds"]+=1
    dt=time.time()-t0
    for v in r.violations[:3]: print(seed,s,m,r.mix,v, f"{dt:.2f}s")
print(tot, time.time()-t)
