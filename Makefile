# Build of lathe: `make` alone says what it can do. CONTRIBUTING.md tells more.

BUILD   ?= build
VARIANT ?= release
CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
OUT     := $(BUILD)/$(VARIANT)
MAKEFLAGS += --no-print-directory

# Sources by wildcard: src/app/main.c goes into the program only.
SOURCES  := $(sort $(wildcard src/*/*.c src/backend/*/*.c))
LIBRARY  := $(filter-out src/app/main.c,$(SOURCES))
NATIVE   := $(sort $(wildcard src/backend/cpu/native/*.c))
SUPPORT  := $(sort $(wildcard tests/support/*.c))
TESTS    := $(sort $(wildcard tests/*/test_*.c tests/backend/*/test_*.c))
BENCHES  := $(sort $(wildcard bench/*.c))
FUZZERS  := $(sort $(wildcard fuzz/*.c))
TOOLS    := $(sort $(wildcard tools/*.c))
FORMATTED = $(shell find src include tests fuzz bench tools examples -name '*.[ch]' 2>/dev/null)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion \
  -Wdouble-promotion -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
  -Wvla -Wpointer-arith -Wcast-qual -Wcast-align -Wwrite-strings -Wundef -Wformat=2 \
  -Wimplicit-fallthrough -Wswitch-enum -Wunused-result -Wnull-dereference \
  -Wredundant-decls -fno-common
ifeq ($(findstring clang,$(CC)),)
WARNINGS += -Wlogical-op -Wduplicated-cond -Wduplicated-branches
endif
ifeq ($(WERROR),1)
WARNINGS += -Werror
endif

FLAGS_release := -O3
FLAGS_asan  := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -DLATHE_SLOW_CHECKS
FLAGS_tsan  := -O1 -fsanitize=thread -DLATHE_SLOW_CHECKS -DLATHE_PLAIN_GEMM
FLAGS_cover := -O0 --coverage
FLAGS_fuzz  := -O1 -fsanitize=address,undefined,fuzzer-no-link -DLATHE_SLOW_CHECKS
FLAGS := $(FLAGS_$(VARIANT)) -g -fno-omit-frame-pointer -fno-math-errno
CFLAGS_ALL = -std=c11 -D_GNU_SOURCE -Isrc -Iinclude -fPIC -fvisibility=hidden $(WARNINGS) \
  $(FLAGS) $(CFLAGS)
GEMM_LIBS := $(if $(filter tsan,$(VARIANT)),,-ldnnl -lopenblas -lgomp)
LIBS      := $(GEMM_LIBS) -ljansson -lyaml -lxxhash -lpthread -lm
LINK       = $(CC) $(FLAGS) $(LDFLAGS) -o $@

# Files in native/ are compiled once per instruction set, and may fuse multiply and add.
ISAS := plain
ifneq ($(filter x86_64%,$(shell $(CC) -dumpmachine)),)
ISAS += avx2 avx512
endif
ISA_avx2   := -mavx2 -mfma -mf16c
ISA_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c

object   = $(patsubst %.c,$(OUT)/obj/%.o,$(1))
PROGRAM := $(if $(wildcard src/app/main.c),$(OUT)/lathe)
OBJECTS := $(call object,$(LIBRARY)) \
  $(foreach isa,$(ISAS),$(patsubst %.c,$(OUT)/obj/%.$(isa).o,$(NATIVE)))
# Fuzzers also run as tests, over their seeds (fuzz/driver/replay.c).
TEST_PROGRAMS  := $(patsubst %.c,$(OUT)/%,$(TESTS)) $(patsubst %.c,$(OUT)/tests/%,$(FUZZERS))
BENCH_PROGRAMS := $(patsubst %.c,$(OUT)/%,$(BENCHES))
TOOL_PROGRAMS  := $(patsubst %.c,$(OUT)/%,$(TOOLS))
FUZZ_PROGRAMS  := $(patsubst %.c,$(OUT)/%,$(FUZZERS))
# make test ONLY=base/test_mem narrows any target that runs tests.
SELECTED  = $(if $(ONLY),$(foreach t,$(ONLY),$(filter $(OUT)/tests/$(t)%,$(TEST_PROGRAMS))),$(TEST_PROGRAMS))
SCENARIOS = $(if $(ONLY),,$(sort $(wildcard tests/scenarios/*.sh)))
RUN_TESTS = LATHE=$(abspath $(OUT)/lathe) tools/run-tests $(OUT)/results

help:
	@sed -n 's/^#: //p' Makefile
#: make all         build/release/lathe, the library, tools
#: make install     program, library, headers, manual; PREFIX=/usr/local DESTDIR=
#: make test        every test; ONLY=graph/ or ONLY=base/test_mem narrows it
#: make test-all    the slow ones too
#: make check       layers, names, headers, format, sizes, paths in the docs
#: make check-ops   every op: kernels, gradients, placements
#: make asan tsan   tests with sanitizers (ubsan = asan; tsan: what has threads)
#: make bench       speeds of steps and generation, beside their targets (ten minutes)
#: make bench-parts kernels, tokenizer, data
#: make demo        fine-tunes the model in examples/demo
#: make demo-model  pretrains that model again
#: make fuzz        FUZZ_SECONDS=60 of each fuzzer (clang)
#: make valgrind    short tests under valgrind
#: make cover       which lines the tests reach
#: make format      clang-format over all sources
#: Settings: CC=gcc|clang BUILD=build VARIANT=release|asan|tsan WERROR=1 JOBS=2

include tools/library.mk tools/hard.mk

all: $(PROGRAM) $(OUT)/liblathe.a $(PRODUCTS) $(TOOL_PROGRAMS)
tests: $(SELECTED) $(if $(ONLY),,$(PROGRAM) $(PRODUCTS) $(FAULTS))

test: tests
	@$(RUN_TESTS) $(SELECTED) $(SCENARIOS)
test-all: tests
	@LATHE_TEST_ALL=1 TEST_TIMEOUT=1800 $(RUN_TESTS) $(SELECTED) $(SCENARIOS)
check-ops: tests
	@$(RUN_TESTS) $(filter $(OUT)/tests/graph/% $(OUT)/tests/backend/%,$(TEST_PROGRAMS))
asan ubsan:
	@TEST_TIMEOUT=900 $(MAKE) VARIANT=asan test
tsan:
	@TEST_TIMEOUT=900 $(MAKE) VARIANT=tsan test \
	  ONLY="$(or $(ONLY),base/test_pool base/test_mem data/ $(addprefix backend/, \
	  test_backend cpu/test_engine cpu/test_executor cpu/test_gemm cpu/test_program))"
check: $(OUT)/liblathe.a
	@CC="$(CC)" tools/check $(OUT)/obj
bench: $(PROGRAM)
	@LATHE=$(abspath $(OUT)/lathe) bench/run.sh
bench-parts: $(BENCH_PROGRAMS)
	@set -e; for program in $(BENCH_PROGRAMS); do echo "== $$program"; $$program; done
demo: all
	$(OUT)/lathe train examples/demo/demo.yaml --overwrite
demo-model: all
	LATHE=$(abspath $(OUT)/lathe) tools/make-demo-model
format:
	clang-format -i $(FORMATTED)
cover:
	@$(MAKE) VARIANT=cover test
	@cd $(BUILD)/cover && find obj -name '*.gcda' | xargs gcov -n 2>/dev/null | \
	  awk '/^File .*src\// {f=$$2} /^Lines/ && f {print $$2, $$4, f; f=""}' | sort -t: -k2 -n
# Flags are part of the input: when they differ from the last time, all is built again.
$(OUT)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CFLAGS_ALL) $(LDFLAGS) $(LIBS)' | cmp -s - $@ || \
	  echo '$(CC) $(CFLAGS_ALL) $(LDFLAGS) $(LIBS)' > $@

compile = @mkdir -p $(@D); echo "  $(CC) $<"; $(CC) $(CFLAGS_ALL) -MMD -MP $(1) -c -o $@ $<
define isa_rule
$$(OUT)/obj/src/backend/cpu/native/%.$(1).o: src/backend/cpu/native/%.c $$(OUT)/flags
	$$(call compile,-ffp-contract=fast -DISA=$(1) $$(ISA_$(1)))
endef
$(foreach isa,$(ISAS),$(eval $(call isa_rule,$(isa))))
$(OUT)/obj/%.o: %.c $(OUT)/flags
	$(call compile,-ffp-contract=off -Itests)

$(OUT)/liblathe.a: $(OBJECTS)
	@rm -f $@; ar rcs $@ $^
$(OUT)/lathe: $(OUT)/obj/src/app/main.o $(OUT)/liblathe.a
	$(LINK) $^ $(LIBS)
$(OUT)/tests/%: $(OUT)/obj/tests/%.o $(call object,$(SUPPORT)) $(OUT)/liblathe.a
	@mkdir -p $(@D); $(LINK) $^ -lcmocka $(LIBS)
$(OUT)/tests/fuzz/%: $(OUT)/obj/fuzz/%.o $(OUT)/obj/fuzz/driver/replay.o $(OUT)/liblathe.a
	@mkdir -p $(@D); $(LINK) $^ $(LIBS)
$(OUT)/bench/%: $(OUT)/obj/bench/%.o $(OUT)/liblathe.a
	@mkdir -p $(@D); $(LINK) $^ $(LIBS)
$(OUT)/tools/%: $(OUT)/obj/tools/%.o $(OUT)/liblathe.a
	@mkdir -p $(@D); $(LINK) $^ $(LIBS) -ldl

FORCE:
.PHONY: help all tests test test-all check-ops asan ubsan tsan check bench bench-parts \
  demo demo-model format cover fuzz fuzz-run valgrind install uninstall FORCE
.SECONDARY:
-include $(shell find $(OUT)/obj -name '*.d' 2>/dev/null)
