/*
 * pass_plan - see the header.
 */
#include "train/pass_plan.h"

#include "base/error.h"
#include "base/str.h"

enum {
    /* What a pass takes at first. Each pass reads all weights twice and adds to all
     * gradients: 4 GB for the 270M shape, beside 0.85 TFLOP that 512 tokens need. At 150
     * GFLOP/s and 14 GB/s that is 0.3 s of 6. Passes of 2,048 tokens would save three
     * quarters of these 5 %, and need 1.6 GiB more. */
    PASS_TOKENS = 512,
    /* Beyond this many no speed is gained on a processor, of small models either. */
    MOST_TOKENS = 2048,
};

/* Below this, working memory is small beside any process: more rows are taken. */
static const size_t small_working_bytes = (size_t)128 << 20;

/* One choice, planned into *plan; true when it fits. */
static bool fits(const struct pass_plan_wish *wish, pass_plan_working_fn working,
                 void *context, int32_t rows, bool recomputes, struct pass_plan *plan)
{
    *plan = (struct pass_plan){.rows = rows,
                               .recomputes = recomputes,
                               .working_bytes = working(context, rows, recomputes)};
    return plan->working_bytes <= wish->limit &&
           wish->state_bytes <= wish->limit - plan->working_bytes;
}

/* Small models spend more of a pass on what is done once for it: they take more rows. */
static void grow(const struct pass_plan_wish *wish, pass_plan_working_fn working,
                 void *context, struct pass_plan *plan)
{
    struct pass_plan larger = *plan;
    while (larger.working_bytes <= small_working_bytes) {
        *plan = larger;
        const int64_t rows = base_min(2 * (int64_t)plan->rows, wish->batch_rows);
        if (rows == plan->rows || rows * wish->row_tokens > MOST_TOKENS ||
            !fits(wish, working, context, (int32_t)rows, plan->recomputes, &larger)) {
            return;
        }
    }
}

static bool refuse(const struct pass_plan_wish *wish, const struct pass_plan *plan,
                   struct error *err)
{
    char needed[24];
    char limit[24];
    str_format_bytes(needed, (double)wish->state_bytes + (double)plan->working_bytes);
    str_format_bytes(limit, (double)wish->limit);
    return error_set(
        err, ERROR_RESOURCE,
        "the run needs %s with %d row%s a pass, the limit is %s: lower "
        "data.row_tokens or train.micro_rows, set train.recompute to layer, "
        "or freeze tensors (train.freeze)",
        needed, (int)plan->rows, str_plural(plan->rows), limit);
}

/* Fewer rows a pass cost less than recomputation, so all of them are tried first. Rows that
 * the user gives are taken or refused as they are. */
bool pass_plan_choose(const struct pass_plan_wish *wish, pass_plan_working_fn working,
                      void *context, struct pass_plan *plan, struct error *err)
{
    ASSERT(wish->batch_rows >= 1 && (wish->may_keep || wish->may_recompute));
    const bool is_open = wish->micro_rows == 0;
    const int64_t wanted =
        is_open ? base_max(1, PASS_TOKENS / wish->row_tokens) : wish->micro_rows;
    const int32_t first = (int32_t)base_min(wanted, wish->batch_rows);
    for (int pass = 0; pass < 2; pass++) {
        const bool recomputes = pass == 1;
        if (recomputes ? !wish->may_recompute : !wish->may_keep) {
            continue;
        }
        /* Halving finds a size that fits in few plans, at most twice too small. */
        for (int32_t rows = first; rows >= 1; rows = is_open ? rows / 2 : 0) {
            if (fits(wish, working, context, rows, recomputes, plan)) {
                if (is_open && rows == first) {
                    grow(wish, working, context, plan);
                }
                return true;
            }
        }
    }
    return refuse(wish, plan, err);
}
