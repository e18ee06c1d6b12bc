"""The kernels of `garnet.linalg.triton_ops`, in Triton, which is imported here and nowhere else."""

import triton
import triton.language as tl


# Arguments that change from call to call should not trigger recompilation.
@triton.jit(do_not_specialize=["row", "first", "end"])
def emit(
    halves, squares, bounds, tile_start, tile_stop, tile_part, pool_starts, pool_begin, pool_stop, found, away, counts,
    row, first, end, SCALE: tl.constexpr, WIDTH: tl.constexpr, CAPACITY: tl.constexpr, QUERIES: tl.constexpr,
    POOL: tl.constexpr, DEPTH: tl.constexpr, BEGIN: tl.constexpr,
):  # fmt: skip
    """Collect, for a tile of queries, the nearby points closer than the bounds.

    The points to search are passed through in tiles; those from the first to the end of them are looked at. The tiles
    are in one list: of loops over parts and their tiles, Triton 3.6 lost the count that one handed to the next.
    """
    # One 64-bit address per tile, and 32-bit offsets from there: an address for every number would fill the registers.
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
    mine_taken = counts + (origin - row)
    real = queries < tl.load(tile_stop + tile) - origin
    square = tl.load(squares + origin + queries, mask=real, other=0.0)
    twice = 2 * tl.sqrt(square) / SCALE
    # What the product must exceed, apart from the other point's square; nothing does for a missing row.
    least = square - tl.load(bounds + (origin - row) + queries, mask=real, other=-float("inf"))
    count = tl.zeros((QUERIES,), dtype=tl.int32)
    pools = tl.load(pool_starts + part)
    last = tl.minimum(pools + end, tl.load(pool_starts + part + 1))
    for ordinal in range(pools + first, last):
        if tl.min(tl.where(real, count, CAPACITY), axis=0) < CAPACITY:
            start = tl.load(pool_begin + ordinal)
            theirs = halves + start.to(tl.int64) * (2 * WIDTH)
            product = tl.zeros((QUERIES, POOL), dtype=tl.float32)
            # Rest times leading half, leading half times rest, then both leading halves: the small terms first.
            for at in range(BEGIN, 3 * WIDTH, DEPTH):
                my_at = tl.where(at < 2 * WIDTH, at, at - WIDTH)
                their_at = tl.where(at < WIDTH, at + WIDTH, at - WIDTH)
                left = tl.load(mine + my_at + left_steps)
                right = tl.load(theirs + their_at + right_steps)
                product = tl.dot(left, right, product)
            # NaN where there is no point: no comparison holds.
            there = pool < tl.load(pool_stop + ordinal) - start
            their_square = tl.load(squares + start + pool, mask=there, other=float("nan"))
            their_length = tl.sqrt(their_square) / SCALE
            near = product * (twice[:, None] * their_length[None, :]) - their_square[None, :]
            hit = (near > least[:, None]) & (queries[:, None] + (origin - start) != pool[None, :])
            number = hit.to(tl.int32)
            if tl.max(tl.max(number, axis=1), axis=0) > 0:
                # Hits are few: taking places one by one is faster than counting along every row.
                place = tl.atomic_add(mine_taken + queries[:, None] + 0 * pool[None, :], 1, mask=hit, sem="relaxed")
                fits = hit & (place < CAPACITY)
                names = tl.broadcast_to((start + pool)[None, :], (QUERIES, POOL))
                tl.store(found + kept + queries[:, None] * CAPACITY + place, names, mask=fits)
                tl.store(away + kept + queries[:, None] * CAPACITY + place, square[:, None] - near, mask=fits)
                count += tl.sum(number, axis=1)


@triton.jit(do_not_specialize=["row"])
def measure(points, found, away, row, width, COUNT: tl.constexpr, SOME: tl.constexpr, DEPTH: tl.constexpr):
    """The squared distances of the points that a row has collected; infinite where there is none."""
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
    starts, columns, values, rows, block, minus, result, width, slope, shift,
    SHIFT: tl.constexpr, MINUS: tl.constexpr, SOME: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Some rows of slope A X - shift X - M, a row and some columns at a time."""
    row = tl.load(rows + tl.program_id(0)).to(tl.int64)
    begin = tl.load(starts + row)
    end = tl.load(starts + row + 1)
    at = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = at < width
    here = row * width + at
    # Prefetched values are not waited for: what to subtract, and the entries after the next.
    less = tl.zeros((WIDTH,), dtype=tl.float32)
    if SHIFT:
        less += shift * tl.load(block + here, mask=inside, other=0.0)
    if MINUS:
        less += tl.load(minus + here, mask=inside, other=0.0)
    some = tl.arange(0, SOME)
    names = tl.load(columns + begin + some, mask=begin + some < end, other=0).to(tl.int64)
    factors = tl.load(values + begin + some, mask=begin + some < end, other=0.0)
    total = tl.zeros((SOME, WIDTH), dtype=tl.float32)
    for start in range(begin, end, SOME):
        real = start + some < end
        theirs = tl.load(block + names[:, None] * width + at[None, :], mask=real[:, None] & inside[None, :], other=0.0)
        places = start + SOME + some
        next_names = tl.load(columns + places, mask=places < end, other=0).to(tl.int64)
        next_factors = tl.load(values + places, mask=places < end, other=0.0)
        total += theirs * factors[:, None]
        names, factors = next_names, next_factors
    tl.store(result + here, slope * tl.sum(total, axis=0) - less, mask=inside)


@triton.jit
def count_marked(few_starts, few_columns, rows, slots, marks, words, result, SOME: tl.constexpr):
    """For each pair, how many entries of a row are marked among the bits of another."""
    pair = tl.program_id(0)
    row = tl.load(rows + pair)
    begin = tl.load(few_starts + row)
    end = tl.load(few_starts + row + 1)
    mine = marks + tl.load(slots + pair).to(tl.int64) * words
    some = tl.arange(0, SOME)
    total = tl.zeros((SOME,), dtype=tl.int32)
    for start in range(begin, end, SOME):
        real = start + some < end
        column = tl.load(few_columns + start + some, mask=real, other=0)
        word = tl.load(mine + (column >> 5), mask=real, other=0)
        total += (word >> (column & 31)) & 1
    tl.store(result + pair, tl.sum(total, axis=0))


@triton.jit
def count_found(few_starts, few_columns, rows, many_starts, many_columns, others, result, SOME: tl.constexpr):
    """For each pair, how many entries of a row a binary search finds in another."""
    pair = tl.program_id(0)
    row = tl.load(rows + pair)
    begin = tl.load(few_starts + row)
    end = tl.load(few_starts + row + 1)
    other = tl.load(others + pair)
    theirs = many_columns + tl.load(many_starts + other)
    count = (tl.load(many_starts + other + 1) - tl.load(many_starts + other)).to(tl.int32)
    some = tl.arange(0, SOME)
    total = tl.zeros((SOME,), dtype=tl.int32)
    for start in range(begin, end, SOME):
        real = start + some < end
        sought = tl.load(few_columns + start + some, mask=real, other=-1)
        low = tl.zeros((SOME,), dtype=tl.int32)
        high = low + count
        left = count
        while left > 0:  # as many halvings as a row of this length needs
            middle = (low + high) >> 1
            open_ = real & (low < high)
            smaller = tl.load(theirs + middle, mask=open_, other=0) < sought
            low = tl.where(open_ & smaller, middle + 1, low)
            high = tl.where(open_ & ~smaller, middle, high)
            left = left >> 1
        there = real & (low < count)
        total += (there & (tl.load(theirs + low, mask=there, other=-2) == sought)).to(tl.int32)
    tl.store(result + pair, tl.sum(total, axis=0))
