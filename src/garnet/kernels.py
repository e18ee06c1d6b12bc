"""The kernels of `garnet.fused`, in Triton, which is imported here and nowhere else."""

import triton
import triton.language as tl


# What changes from call to call is no reason to compile again.
@triton.jit(do_not_specialize=["row", "first", "end"])
def emit(
    half, squares, bounds, tile_start, tile_part, starts, sizes, ranked, found, counts,
    row, first, end, scale, relative, absolute,
    REACH: tl.constexpr, WIDTH: tl.constexpr, CAPACITY: tl.constexpr, QUERIES: tl.constexpr, POOL: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """Collect, for a tile of queries, the points of the parts around it that may lie within the bounds."""
    # One place in 64 bits for a tile, and steps from there in 32: addresses of every number would fill the registers.
    tile = tl.program_id(0)
    part = tl.load(tile_part + tile)
    origin = tl.load(tile_start + tile)
    queries = tl.arange(0, QUERIES)
    pool = tl.arange(0, POOL)
    depth = tl.arange(0, DEPTH)
    left_steps = queries[:, None] * WIDTH + depth[None, :]
    right_steps = pool[None, :] * WIDTH + depth[:, None]
    mine = half + origin.to(tl.int64) * WIDTH
    kept = found + (origin - row).to(tl.int64) * CAPACITY
    real = queries < tl.load(starts + part) + tl.load(sizes + part) - origin
    square = tl.load(squares + origin + queries, mask=real, other=0.0)
    reach = tl.sqrt(square) * relative
    bound = tl.load(bounds + (origin - row) + queries, mask=real, other=-float("inf")) + absolute - square
    count = tl.zeros((QUERIES,), dtype=tl.int32)
    for probe in range(first, end):
        other = tl.load(ranked + part.to(tl.int64) * REACH + probe)
        begin = tl.load(starts + other)
        stop = begin + tl.load(sizes + other)
        theirs = half + begin.to(tl.int64) * WIDTH
        for start in range(begin, stop, POOL):
            if tl.min(tl.where(real, count, CAPACITY), axis=0) < CAPACITY:
                there = pool < stop - start
                product = tl.zeros((QUERIES, POOL), dtype=tl.float32)
                for at in range(0, WIDTH, DEPTH):
                    left = tl.load(mine + at + left_steps, mask=real[:, None], other=0.0)
                    right = tl.load(theirs + (start - begin) * WIDTH + at + right_steps, mask=there[None, :], other=0.0)
                    product = tl.dot(left, right, product)
                # Not a number where there is no point: no comparison holds.
                their_square = tl.load(squares + start + pool, mask=there, other=float("nan"))
                away = their_square[None, :] - 2 * scale * product - reach[:, None] * tl.sqrt(their_square)[None, :]
                hit = (away <= bound[:, None]) & (queries[:, None] + (origin - start) != pool[None, :])
                number = hit.to(tl.int32)
                if tl.max(tl.max(number, axis=1), axis=0) > 0:
                    place = count[:, None] + tl.cumsum(number, axis=1) - 1
                    names = tl.broadcast_to((start + pool)[None, :], (QUERIES, POOL))
                    tl.store(kept + queries[:, None] * CAPACITY + place, names, mask=hit & (place < CAPACITY))
                    count += tl.sum(number, axis=1)
    tl.store(counts + (origin - row) + queries, count, mask=real)


@triton.jit(do_not_specialize=["row"])
def measure(points, found, counts, away, row, width, CAPACITY: tl.constexpr, SOME: tl.constexpr, DEPTH: tl.constexpr):
    """The squared distances of the points that a row has collected."""
    here = tl.program_id(0).to(tl.int64)
    count = tl.minimum(tl.load(counts + here), CAPACITY)
    mine = points + (here + row) * width
    depth = tl.arange(0, DEPTH)
    for start in range(0, count, SOME):
        places = start + tl.arange(0, SOME)
        real = places < count
        total = tl.zeros((SOME,), dtype=tl.float32)
        theirs = tl.load(found + here * CAPACITY + places, mask=real, other=0).to(tl.int64)
        for at in range(0, width, DEPTH):
            inside = at + depth < width
            left = tl.load(mine + at + depth, mask=inside, other=0.0)
            right = tl.load(
                points + theirs[:, None] * width + (at + depth)[None, :],
                mask=real[:, None] & inside[None, :],
                other=0.0,
            )
            apart = left[None, :] - right
            total += tl.sum(apart * apart, axis=1)
        tl.store(away + here * CAPACITY + places, total, mask=real)


@triton.jit(do_not_specialize=["edges"])
def compare(
    left, right, first, second, result, edges, width,
    DISTANCE: tl.constexpr, SOME: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """For each edge the squared distance of two rows, or their inner product."""
    places = tl.program_id(0).to(tl.int64) * SOME + tl.arange(0, SOME)
    real = places < edges
    mine = left + tl.load(first + places, mask=real, other=0)[:, None] * width
    theirs = right + tl.load(second + places, mask=real, other=0)[:, None] * width
    depth = tl.arange(0, DEPTH)
    total = tl.zeros((SOME,), dtype=tl.float32)
    for at in range(0, width, DEPTH):
        inside = real[:, None] & (at + depth < width)[None, :]
        one = tl.load(mine + (at + depth)[None, :], mask=inside, other=0.0)
        other = tl.load(theirs + (at + depth)[None, :], mask=inside, other=0.0)
        if DISTANCE:
            total += tl.sum((one - other) * (one - other), axis=1)
        else:
            total += tl.sum(one * other, axis=1)
    tl.store(result + places, total, mask=real)
