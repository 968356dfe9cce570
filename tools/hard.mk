# Part of the Makefile: fuzzing, faults on purpose, valgrind.

# Preloaded into the program by tests/scenarios/70-faults.sh. A sanitizer keeps its malloc.
FAULTS := $(OUT)/tests/fault.so
$(FAULTS): tests/support/fault/fault.c $(OUT)/flags
	@mkdir -p $(@D); echo "  $(CC) $<"; $(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) -O2 -g -fPIC \
	  -fvisibility=hidden $(if $(filter release,$(VARIANT)),,-DFAULT_WITHOUT_MALLOC) \
	  -shared -o $@ $< -ldl

$(OUT)/fuzz/%: $(OUT)/obj/fuzz/%.o $(OUT)/liblathe.a
	@mkdir -p $(@D); $(LINK) -fsanitize=fuzzer $^ $(LIBS)
fuzz:
	@$(MAKE) VARIANT=fuzz CC=clang fuzz-run
fuzz-run: $(FUZZ_PROGRAMS)
	@tools/fuzz $(or $(FUZZ_SECONDS),60) $(FUZZ_PROGRAMS)
# Short tests only: valgrind is 20 to 50 times slower.
SHORT_TESTS := base/ mesh/ formats/ text/ data/ app/ model/test_config model/test_params \
  model/test_lora train/test_settings train/test_metrics train/test_schedule fuzz/
LONG_TESTS  := data/test_ingest data/test_records_hard data/test_records_open
valgrind: tests
	@TEST_UNDER="valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite" \
	  TEST_TIMEOUT=1200 $(RUN_TESTS) $(filter-out $(addprefix $(OUT)/tests/,$(LONG_TESTS)), \
	  $(foreach t,$(or $(ONLY),$(SHORT_TESTS)),$(filter $(OUT)/tests/$(t)%,$(TEST_PROGRAMS))))
