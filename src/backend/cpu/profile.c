/*
 * profile - sums the times of steps by op and by node name.
 *
 * Numbers in names stand for layers and become '*': "layers.3.mlp.down" and its like
 * are one row.
 */
#include "backend/cpu/profile.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/program.h"
#include "base/mem.h"
#include "base/str.h"

enum { MAX_NAME_ROWS = 40, LABEL_BYTES = 80 };

/* All steps with one label. */
struct row {
    char label[LABEL_BYTES];
    int64_t time_ns, n_runs;
    double flops; /* of all runs and ranks */
};

struct table {
    struct row *rows; /* [n] */
    size_t n, capacity;
};

/* Rows in the order of first sight; sorted when printed. */

/* The row with this label, made if need be: tables are small, so a walk will do. */
static struct row *find_row(struct table *table, const char *label)
{
    for (size_t i = 0; i < table->n; i++) {
        if (strcmp(table->rows[i].label, label) == 0) {
            return &table->rows[i];
        }
    }
    table->rows =
        mem_reserve_one(table->rows, table->n, &table->capacity, sizeof(*table->rows));
    struct row *row = &table->rows[table->n++];
    memset(row, 0, sizeof(*row));
    memcpy(row->label, label, strlen(label) + 1);
    return row;
}

/* "layers.3.mlp.down" becomes "layers.*.mlp.down matmul". Names that are too long are
 * cut; an op that the name ends with already is not added. */
static void name_label(char label[LABEL_BYTES], const struct node *node)
{
    size_t n = 0;
    for (const char *c = node->name; *c != '\0' && n + 1 < LABEL_BYTES; c++) {
        const bool starts_part = c == node->name || c[-1] == '.';
        if (starts_part && isdigit((unsigned char)*c)) {
            label[n++] = '*';
            while (isdigit((unsigned char)c[1])) {
                c++;
            }
        } else {
            label[n++] = *c;
        }
    }
    label[n] = '\0';
    const char *op = op_name(node->op);
    if (!str_ends_with(label, op) && n + strlen(op) + 2 < LABEL_BYTES) {
        label[n] = ' ';
        memcpy(label + n + 1, op, strlen(op) + 1);
    }
}

/* A step runs for all local ranks at once, so its FLOPs count for each. */
static void add_step(struct table *table, const char *label,
                     const struct program_step *step, int n_ranks)
{
    struct row *row = find_row(table, label);
    row->time_ns += step->time_ns;
    row->n_runs += step->n_runs;
    row->flops += step->flops * (double)n_ranks * (double)step->n_runs;
}

/* Most time first; equal ones by name, so that the order is settled. */
static int compare_rows(const void *a, const void *b)
{
    const struct row *left = a;
    const struct row *right = b;
    if (left->time_ns != right->time_ns) {
        return left->time_ns > right->time_ns ? -1 : 1;
    }
    return strcmp(left->label, right->label);
}

/* Prints at most max_rows rows and a total, and frees the table. FLOPs per nanosecond
 * are GFLOP/s. */
static void print_table(struct table *table, const char *title, size_t max_rows,
                        struct str *out)
{
    if (table->n > 0) {
        qsort(table->rows, table->n, sizeof(*table->rows), compare_rows);
    }
    int64_t total_ns = 0;
    for (size_t i = 0; i < table->n; i++) {
        total_ns += table->rows[i].time_ns;
    }
    str_printf(out, "%-48s %10s %7s %8s %8s\n", title, "ms", "share", "runs",
               "GFLOP/s");
    for (size_t i = 0; i < table->n && i < max_rows; i++) {
        const struct row *row = &table->rows[i];
        const double share =
            total_ns > 0 ? 100.0 * (double)row->time_ns / (double)total_ns : 0.0;
        str_printf(out, "%-48s %10.2f %6.1f%% %8lld", row->label,
                   (double)row->time_ns / 1e6, share, (long long)row->n_runs);
        if (row->flops > 0.0 && row->time_ns > 0) {
            str_printf(out, " %8.1f", row->flops / (double)row->time_ns);
        }
        str_add(out, "\n");
    }
    if (table->n > max_rows) {
        str_printf(out, "(%zu more)\n", table->n - max_rows);
    }
    str_printf(out, "%-48s %10.2f\n\n", "total", (double)total_ns / 1e6);
    mem_free(table->rows);
}

/* The same steps twice: by op, which says what to make faster, and by name, which says
 * where it is. */
void profile_print(const struct engine *base, struct str *out)
{
    const struct cpu_engine *engine = (const struct cpu_engine *)base;
    if (!engine->profiles) {
        return;
    }
    struct table by_op = {0};
    struct table by_name = {0};
    for (const struct cpu_program *program = engine->programs; program != NULL;
         program = program->next) {
        for (int i = 0; i < program->n_steps; i++) {
            const struct program_step *step = &program->steps[i];
            char label[LABEL_BYTES];
            name_label(label, step->node);
            add_step(&by_op, op_name(step->node->op), step, base->n_local_ranks);
            add_step(&by_name, label, step, base->n_local_ranks);
        }
    }
    print_table(&by_op, "op", OP_COUNT, out);
    print_table(&by_name, "node", MAX_NAME_ROWS, out);
}

void profile_reset(struct engine *base)
{
    const struct cpu_engine *engine = (const struct cpu_engine *)base;
    for (struct cpu_program *program = engine->programs; program != NULL;
         program = program->next) {
        for (int i = 0; i < program->n_steps; i++) {
            program->steps[i].time_ns = 0;
            program->steps[i].n_runs = 0;
        }
    }
}

/* Most time first; equal ones by name, so that the order is settled. */
static int compare_ops(const void *a, const void *b)
{
    const struct backend_profile_row *left = a;
    const struct backend_profile_row *right = b;
    if (left->ms != right->ms) {
        return left->ms > right->ms ? -1 : 1;
    }
    return strcmp(left->op, right->op);
}

int profile_ops(const struct engine *base, struct backend_profile_row *rows,
                int capacity)
{
    const struct cpu_engine *engine = (const struct cpu_engine *)base;
    struct backend_profile_row all[OP_COUNT] = {0};
    for (const struct cpu_program *program = engine->programs; program != NULL;
         program = program->next) {
        for (int i = 0; i < program->n_steps; i++) {
            const struct program_step *step = &program->steps[i];
            struct backend_profile_row *row = &all[step->node->op];
            row->ms += (double)step->time_ns / 1e6;
            row->n_runs += step->n_runs;
            row->gflop +=
                step->flops * base->n_local_ranks * (double)step->n_runs / 1e9;
        }
    }
    /* Those that have run move to the front. */
    int n = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        if (all[op].n_runs > 0) {
            all[n] = all[op];
            all[n++].op = op_name((enum op)op);
        }
    }
    qsort(all, (size_t)n, sizeof(*all), compare_ops);
    n = n < capacity ? n : capacity;
    memcpy(rows, all, (size_t)n * sizeof(*rows));
    return n;
}
