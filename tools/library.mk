# Part of the Makefile: the library that programs link against, and make install.
#
# Only what include/lathe declares is visible in it. The objects are those of the program;
# build/.../liblathe.a, which the tests use, holds all of them with every symbol.

VERSION  := $(shell sed -n 's/^\#define LATHE_VERSION_STRING *"\(.*\)"/\1/p' include/lathe/common.h)
SONAME   := liblathe.so.$(firstword $(subst ., ,$(VERSION)))
SHARED   := $(OUT)/lib/liblathe.so.$(VERSION)
STATIC   := $(OUT)/lib/liblathe.a
MANUAL   := $(OUT)/share/lathe.1
COMPLETION := $(OUT)/share/lathe.bash $(OUT)/share/_lathe
PRODUCTS := $(SHARED) $(STATIC) $(MANUAL) $(COMPLETION) $(OUT)/share/lathe.pc
LIBRARY_OBJECTS := $(filter-out $(OUT)/obj/src/app/%,$(OBJECTS))
PREFIX   ?= /usr/local
# A sanitizer's own symbols come with the program only.
COMPLETE := -Wl,-z,defs

$(SHARED): $(LIBRARY_OBJECTS)
	@mkdir -p $(@D)
	@echo "  $(CC) $(@F)"; $(LINK) -shared -Wl,-soname,$(SONAME) -Wl,--exclude-libs,ALL \
	  $(if $(filter release,$(VARIANT)),$(COMPLETE)) $^ $(LIBS)
	@ln -sf $(@F) $(@D)/$(SONAME); ln -sf $(SONAME) $(@D)/liblathe.so
# One object whose hidden symbols are local: they cannot meet those of the program.
$(STATIC): $(LIBRARY_OBJECTS)
	@mkdir -p $(@D); rm -f $@
	@ld -r -o $(@D)/lathe.o $^ && objcopy --localize-hidden $(@D)/lathe.o
	@ar rcs $@ $(@D)/lathe.o; rm $(@D)/lathe.o
# Made by the program from its own tables.
$(MANUAL): $(OUT)/lathe
	@mkdir -p $(@D); $< help --man > $@
$(OUT)/share/lathe.bash: $(OUT)/lathe
	@mkdir -p $(@D); $< help --completion bash > $@
$(OUT)/share/_lathe: $(OUT)/lathe
	@mkdir -p $(@D); $< help --completion zsh > $@
$(OUT)/share/lathe.pc: tools/lathe.pc.in include/lathe/common.h $(OUT)/flags
	@mkdir -p $(@D); sed -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS@|$(LIBS)|' $< > $@

install: $(OUT)/lathe $(PRODUCTS)
	@tools/install $(OUT) "$(PREFIX)" "$(DESTDIR)"
uninstall:
	@tools/install --remove "$(PREFIX)" "$(DESTDIR)"
