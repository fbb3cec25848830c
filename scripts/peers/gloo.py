"""Dense all-reduce by Gloo, through PyTorch, for scripts/compare-peers.js: one JSON line a size.

    python gloo.py --ranks 4 --elements 1000,100000 --iterations 99,9                              all ranks on this host
    python gloo.py --ranks 4 --elements 1000 --iterations 99 --rank 2 --master HOST --iface eth0    one rank of several hosts
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

WARM_UP = 3


def measure(rank, options):
    os.environ.update(MASTER_ADDR=options.master, MASTER_PORT=str(options.port))
    if options.iface:
        os.environ["GLOO_SOCKET_IFNAME"] = options.iface
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
    sizes = [int(text) for text in options.elements.split(",")]
    counts = [int(text) for text in options.iterations.split(",")]
    for elements, iterations in zip(sizes, counts, strict=True):
        array = torch.ones(elements)
        times = []
        for iteration in range(WARM_UP + iterations):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(array)
            elapsed = time.perf_counter() - start
            array.fill_(1)
            if iteration >= WARM_UP:
                times.append(elapsed)
        if rank == 0:
            times.sort()
            print(json.dumps({"elements": elements, "p50Us": times[len(times) // 2] * 1e6}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--elements", required=True)
    parser.add_argument("--iterations", required=True, help="as many numbers as sizes")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--master", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=29517)
    parser.add_argument("--iface")
    options = parser.parse_args()
    if options.rank is None:
        multiprocessing.spawn(measure, (options,), nprocs=options.ranks)
    else:
        measure(options.rank, options)
