"""The kernels of `garnet.fused`, in Triton, which is imported here and nowhere else."""

import triton
import triton.language as tl


# What changes from call to call is no reason to compile again.
@triton.jit(do_not_specialize=["row", "probes", "first", "end"])
def emit(
    halves, squares, bounds, tile_start, tile_part, starts, sizes, ranked, found, away, counts, row, probes, first, end,
    SCALE: tl.constexpr, REACH: tl.constexpr, WIDTH: tl.constexpr, CAPACITY: tl.constexpr, QUERIES: tl.constexpr,
    POOL: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Collect, for a tile of queries, the points around it that lie within the bounds.

    The parts to search are passed through in tiles; those from the first to the end of them are looked at.
    """
    # One place in 64 bits for a tile, and steps from there in 32: addresses of every number would fill the registers.
    tile = tl.program_id(0)
    part = tl.load(tile_part + tile)
    origin = tl.load(tile_start + tile)
    queries = tl.arange(0, QUERIES)
    pool = tl.arange(0, POOL)
    depth = tl.arange(0, DEPTH)
    left_steps = queries[:, None] * (2 * WIDTH) + depth[None, :]
    right_steps = pool[None, :] * (2 * WIDTH) + depth[:, None]
    mine = halves + origin.to(tl.int64) * (2 * WIDTH)
    kept = (origin - row).to(tl.int64) * CAPACITY
    real = queries < tl.load(starts + part) + tl.load(sizes + part) - origin
    square = tl.load(squares + origin + queries, mask=real, other=0.0)
    twice = 2 * tl.sqrt(square) / SCALE
    bound = tl.load(bounds + (origin - row) + queries, mask=real, other=-float("inf"))
    count = tl.zeros((QUERIES,), dtype=tl.int32)
    passed = 0
    for probe in range(0, probes):
        other = tl.load(ranked + part.to(tl.int64) * REACH + probe)
        begin = tl.load(starts + other)
        stop = begin + tl.load(sizes + other)
        theirs = halves + begin.to(tl.int64) * (2 * WIDTH)
        tiles = tl.cdiv(stop - begin, POOL)
        for ordinal in range(tl.maximum(first - passed, 0), tl.minimum(end - passed, tiles)):
            start = begin + ordinal * POOL
            if tl.min(tl.where(real, count, CAPACITY), axis=0) < CAPACITY:
                there = pool < stop - start
                product = tl.zeros((QUERIES, POOL), dtype=tl.float32)
                # Rest times leading half, leading half times rest, then both leading halves: the small terms first.
                for at in range(0, 3 * WIDTH, DEPTH):
                    my_at = tl.where(at < 2 * WIDTH, at, at - WIDTH)
                    their_at = tl.where(at < WIDTH, at + WIDTH, at - WIDTH)
                    left = tl.load(mine + my_at + left_steps, mask=real[:, None], other=0.0)
                    shift = (start - begin) * (2 * WIDTH) + their_at
                    right = tl.load(theirs + shift + right_steps, mask=there[None, :], other=0.0)
                    product = tl.dot(left, right, product)
                # Not a number where there is no point: no comparison holds.
                their_square = tl.load(squares + start + pool, mask=there, other=float("nan"))
                their_length = tl.sqrt(their_square) / SCALE
                apart = square[:, None] + their_square[None, :] - product * twice[:, None] * their_length[None, :]
                hit = (apart <= bound[:, None]) & (queries[:, None] + (origin - start) != pool[None, :])
                number = hit.to(tl.int32)
                if tl.max(tl.max(number, axis=1), axis=0) > 0:
                    place = count[:, None] + tl.cumsum(number, axis=1) - 1
                    fits = hit & (place < CAPACITY)
                    names = tl.broadcast_to((start + pool)[None, :], (QUERIES, POOL))
                    tl.store(found + kept + queries[:, None] * CAPACITY + place, names, mask=fits)
                    tl.store(away + kept + queries[:, None] * CAPACITY + place, apart, mask=fits)
                    count += tl.sum(number, axis=1)
        passed += tiles
    tl.store(counts + (origin - row) + queries, count, mask=real)


@triton.jit(do_not_specialize=["row"])
def measure(points, found, away, row, width, COUNT: tl.constexpr, SOME: tl.constexpr, DEPTH: tl.constexpr):
    """The squared distances of the points that a row has collected, as many as it has; infinite where there is none."""
    here = tl.program_id(0).to(tl.int64)
    mine = points + (here + row) * width
    depth = tl.arange(0, DEPTH)
    for start in range(0, COUNT, SOME):
        places = start + tl.arange(0, SOME)
        total = tl.zeros((SOME,), dtype=tl.float32)
        theirs = tl.load(found + here * COUNT + places, mask=places < COUNT, other=-1).to(tl.int64)
        real = theirs >= 0
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
        tl.store(away + here * COUNT + places, tl.where(real, total, float("inf")), mask=places < COUNT)


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


@triton.jit(do_not_specialize=["slope", "shift"])
def multiply(
    starts, columns, values, order, block, scales, whole, minus, result, width, slope, shift,
    ROUGH: tl.constexpr, SHIFT: tl.constexpr, MINUS: tl.constexpr, SOME: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """A row of slope A X - shift X - M, where X is gathered in float32 or, row by row, as integers times a scale."""
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    begin = tl.load(starts + row)
    end = tl.load(starts + row + 1)
    at = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = at < width
    total = tl.zeros((SOME, WIDTH), dtype=tl.float32)
    for start in range(begin, end, SOME):
        places = start + tl.arange(0, SOME)
        real = places < end
        names = tl.load(columns + places, mask=real, other=0).to(tl.int64)
        factors = tl.load(values + places, mask=real, other=0.0)
        if ROUGH:
            factors *= tl.load(scales + names, mask=real, other=0.0)
        theirs = tl.load(block + names[:, None] * width + at[None, :], mask=real[:, None] & inside[None, :], other=0)
        if ROUGH:
            # An integer of 16 bits behind the exponent of 2^23 is a float, many times faster than by conversion.
            bits = (theirs.to(tl.int32) & 0xFFFF) | 0x4B000000
            theirs = bits.to(tl.float32, bitcast=True) - 8421376.0
        total += theirs * factors[:, None]
    image = slope * tl.sum(total, axis=0)
    here = row * width + at
    if SHIFT:
        image -= shift * tl.load(whole + here, mask=inside, other=0.0)
    if MINUS:
        image -= tl.load(minus + here, mask=inside, other=0.0)
    tl.store(result + here, image, mask=inside)


@triton.jit(do_not_specialize=["rows"])
def roughen(block, rough, scales, rows, width, SOME: tl.constexpr, WIDTH: tl.constexpr):
    """Each row as integers of 16 bits, 32768 for zero, and what they are to be multiplied with."""
    some = tl.program_id(0).to(tl.int64) * SOME + tl.arange(0, SOME)
    at = tl.arange(0, WIDTH)
    inside = (some < rows)[:, None] & (at < width)[None, :]
    places = some[:, None] * width + at[None, :]
    numbers = tl.load(block + places, mask=inside, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(numbers), axis=1), 1e-30) / 32767
    tl.store(scales + some, scale, mask=some < rows)
    tl.store(rough + places, tl.floor(numbers / scale[:, None] + 32768.5).to(tl.int32).to(tl.int16), mask=inside)
