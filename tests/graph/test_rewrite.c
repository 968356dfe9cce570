/*
 * The walk that passes share: a copy is the same graph, donors, blocks and bodies too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/print.h"
#include "graph/rewrite.h"
#include "support/every_primitive.h"
#include "support/random_graph.h"
#include "support/same_results.h"

static void check_copy(struct graph *owned_graph)
{
    struct graph *copy = same_results_copy(owned_graph);
    struct str first = {0};
    struct str second = {0};
    print_graph(owned_graph, &first);
    print_graph(copy, &second);
    assert_string_equal(str_text(&first), str_text(&second));
    assert_int_equal(copy->next_block, owned_graph->next_block);
    assert_int_equal(copy->block, -1);
    for (int i = 0; i < copy->n_nodes; i++) {
        assert_int_equal(copy->nodes[i]->block, owned_graph->nodes[i]->block);
    }
    str_deinit(&first);
    str_deinit(&second);
    graph_destroy(copy);
    graph_destroy(owned_graph);
}

static void a_copy_is_the_same_graph(void **state)
{
    (void)state;
    check_copy(every_primitive_create());
    for (uint64_t seed = 0; seed < 20; seed++) {
        const struct random_graph_options options = {.n_nodes = 30,
                                                     .has_overwrite = true};
        check_copy(random_graph_create(seed, &options));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_the_same_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
