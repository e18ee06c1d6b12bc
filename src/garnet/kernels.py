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
    tile = tl.program_id(0)
    part = tl.load(tile_part + tile)
    mine = tl.load(tile_start + tile) + tl.arange(0, QUERIES)
    real = mine < tl.load(starts + part) + tl.load(sizes + part)
    here = (mine - row).to(tl.int64)
    bound = tl.load(bounds + here, mask=real, other=-float("inf"))
    square = tl.load(squares + mine, mask=real, other=0.0)
    reach = tl.sqrt(square) * relative
    count = tl.zeros((QUERIES,), dtype=tl.int32)
    depth = tl.arange(0, DEPTH)
    rows = half + mine.to(tl.int64)[:, None] * WIDTH + depth[None, :]
    for probe in range(first, end):
        other = tl.load(ranked + part.to(tl.int64) * REACH + probe)
        begin = tl.load(starts + other)
        stop = begin + tl.load(sizes + other)
        for start in range(begin, stop, POOL):
            if tl.min(tl.where(real, count, CAPACITY), axis=0) < CAPACITY:
                theirs = start + tl.arange(0, POOL)
                there = theirs < stop
                columns = half + theirs.to(tl.int64)[None, :] * WIDTH + depth[:, None]
                product = tl.zeros((QUERIES, POOL), dtype=tl.float32)
                for at in range(0, WIDTH, DEPTH):
                    left = tl.load(rows + at, mask=real[:, None], other=0.0)
                    right = tl.load(columns + at, mask=there[None, :], other=0.0)
                    product = tl.dot(left, right, product)
                their_square = tl.load(squares + theirs, mask=there, other=0.0)
                away = square[:, None] + their_square[None, :] - 2 * scale * product
                slack = reach[:, None] * tl.sqrt(their_square)[None, :] + absolute
                hit = (away <= bound[:, None] + slack) & there[None, :] & real[:, None]
                hit = hit & (mine[:, None] != theirs[None, :])
                number = hit.to(tl.int32)
                if tl.max(tl.max(number, axis=1), axis=0) > 0:
                    place = count[:, None] + tl.cumsum(number, axis=1) - 1
                    tl.store(
                        found + here[:, None] * CAPACITY + place,
                        tl.broadcast_to(theirs[None, :], (QUERIES, POOL)),
                        mask=hit & (place < CAPACITY),
                    )
                    count += tl.sum(number, axis=1)
    tl.store(counts + here, count, mask=real)


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
