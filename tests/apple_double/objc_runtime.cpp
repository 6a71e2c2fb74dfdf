#include "objc_runtime.h"

#include <unwind.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#if __has_feature(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#endif

extern "C" {

// What clang writes into a program, in the layout of GCC's and ObjFW's runtimes.
struct objc_object;
struct objc_class;
struct objc_selector {
  const char* name;  // from the loading of its module on: its number, from 1
  const char* types;
};
using id = objc_object*;
using Class = objc_class*;
using SEL = objc_selector*;
using IMP = void (*)();

struct objc_object {
  Class isa;
};
struct objc_ivar_list {
  unsigned count;
  struct {
    const char *name, *type;
    unsigned offset;
  } ivars[1];
};
struct objc_method {
  const char *name, *types;
  IMP imp;
};
struct objc_method_list {
  objc_method_list* next;
  unsigned count;
  objc_method methods[1];
};
struct objc_class {
  Class isa;
  Class superclass;  // its name until it is resolved
  const char* name;
  unsigned long version, info;
  long instance_size;  // negative: without the superclass's
  objc_ivar_list* ivars;
  objc_method_list* methods;
  void* table;
  void *subclasses, *siblings, *protocols, *gc;
  unsigned long abi;
  int32_t** ivar_offsets;
  void* properties;
  long strong, weak;
};
struct objc_category {
  const char *name, *class_name;
  objc_method_list *instance_methods, *class_methods;
};
struct objc_symtab {
  unsigned long selectors;
  objc_selector* selector;
  uint16_t classes, categories;
  void* defined[1];
};
struct objc_module {
  unsigned long version, size;
  const char* name;
  objc_symtab* symtab;
};
struct objc_super {
  id self;
  Class cls;
};

extern void* _NSConcreteStackBlock[];
extern void* _NSConcreteMallocBlock[];
extern void* _NSConcreteGlobalBlock[];
void* _Block_copy(const void*);
void _Block_release(const void*);
// clang names it in all that can throw. Only C++ throws here.
_Unwind_Reason_Code __gxx_personality_v0(int, _Unwind_Action, _Unwind_Exception_Class, _Unwind_Exception*,
                                         _Unwind_Context*);
_Unwind_Reason_Code __gnu_objc_personality_v0(int version, _Unwind_Action actions,
                                              _Unwind_Exception_Class kind, _Unwind_Exception* exception,
                                              _Unwind_Context* context) {
  return __gxx_personality_v0(version, actions, kind, exception, context);
}
}

namespace {

struct Runtime {
  std::recursive_mutex mutex;
  std::unordered_map<std::string, size_t> numbers;  // of selectors
  std::vector<std::string> names{""};
  std::unordered_map<std::string, Class> classes;
};

Runtime& runtime() {
  static auto* one = new Runtime;  // outlives everything static
  return *one;
}

size_t number_of(const char* name) {
  Runtime& r = runtime();
  const auto [it, fresh] = r.numbers.emplace(name, r.names.size());
  if (fresh) r.names.emplace_back(name);
  return it->second;
}

struct Table {
  std::vector<IMP> imps;                        // by selector
  IMP construct = nullptr, destruct = nullptr;  // this class's own
};

constexpr unsigned long kMeta = 2, kResolved = 1UL << 20;

std::atomic<int64_t> live, made, made_outside, without_pool;
thread_local int inside = 0;

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "apple double: %s\n", why.c_str());
  std::abort();
}

void fill_table(Class cls, const Table* above) {
  Runtime& r = runtime();
  auto* table = new Table;
  if (above) table->imps = above->imps;
  std::vector<const objc_method_list*> lists;
  for (const objc_method_list* l = cls->methods; l; l = l->next) lists.insert(lists.begin(), l);
  for (const objc_method_list* list : lists)
    for (unsigned i = 0; i < list->count; ++i) {
      const size_t number = number_of(list->methods[i].name);
      if (table->imps.size() < r.names.size()) table->imps.resize(r.names.size());
      table->imps[number] = list->methods[i].imp;
      if (r.names[number] == ".cxx_construct") table->construct = list->methods[i].imp;
      if (r.names[number] == ".cxx_destruct") table->destruct = list->methods[i].imp;
    }
  cls->table = table;
}

Table& table_of(Class cls) { return *static_cast<Table*>(cls->table); }

// Instance variables lie behind the superclass's.
void place_ivars(Class cls, long base) {
  if (cls->instance_size > 0) return;
  cls->instance_size = base - cls->instance_size;
  for (unsigned i = 0; cls->ivars && i < cls->ivars->count; ++i) {
    cls->ivars->ivars[i].offset += static_cast<unsigned>(base);
    if (cls->ivar_offsets && cls->ivar_offsets[i]) *cls->ivar_offsets[i] += static_cast<int32_t>(base);
  }
}

void resolve(Class cls) {
  Runtime& r = runtime();
  std::lock_guard lock(r.mutex);
  if (__atomic_load_n(&cls->info, __ATOMIC_ACQUIRE) & kResolved) return;
  Class super = nullptr;
  if (cls->superclass) {
    const char* name = reinterpret_cast<const char*>(cls->superclass);
    const auto it = r.classes.find(name);
    if (it == r.classes.end()) stop(std::string("there is no class ") + name);
    super = it->second;
    resolve(super);
  }
  cls->superclass = super;
  place_ivars(cls, super ? super->instance_size : 0);
  fill_table(cls, super ? &table_of(super) : nullptr);
  Class meta = cls->isa;
  meta->superclass = super ? super->isa : cls;
  meta->isa = meta;
  fill_table(meta, super ? &table_of(super->isa) : &table_of(cls));
  __atomic_or_fetch(&meta->info, kResolved, __ATOMIC_RELEASE);
  __atomic_or_fetch(&cls->info, kResolved, __ATOMIC_RELEASE);
}

void need(Class cls) {
  if (__atomic_load_n(&cls->info, __ATOMIC_ACQUIRE) & kResolved) return;
  if (cls->info & kMeta) {
    Runtime& r = runtime();
    std::lock_guard lock(r.mutex);
    return resolve(r.classes.at(cls->name));
  }
  resolve(cls);
}

id nothing(id, SEL) { return nullptr; }

IMP find(Class cls, SEL selector) {
  need(cls);
  const auto number = reinterpret_cast<size_t>(selector->name);
  const Table& table = table_of(cls);
  return number < table.imps.size() ? table.imps[number] : nullptr;
}

IMP find_or_stop(Class cls, SEL selector) {
  if (const IMP imp = find(cls, selector)) return imp;
  stop(std::string((cls->info & kMeta) ? "+[" : "-[") + cls->name + " " +
       runtime().names[reinterpret_cast<size_t>(selector->name)] + "] is not there");
}

// The runtime of blocks is not compiled by us: it counts holders by atomic operations that the thread sanitizer does
// not see. Who lets go last, and frees the block, comes after all who let go before.
void release_block(id block) {
#if __has_feature(thread_sanitizer)
  __tsan_release(block);
  __tsan_acquire(block);
#endif
  _Block_release(block);
}

bool is_block(id object) {
  const void* isa = object->isa;
  return isa == _NSConcreteStackBlock || isa == _NSConcreteMallocBlock || isa == _NSConcreteGlobalBlock;
}

struct Header {
  std::atomic<long> holders{1};
  long unused = 0;  // objects begin at a multiple of 16
};

Header& header(id object) { return reinterpret_cast<Header*>(object)[-1]; }

// Strings in the program's own text are never freed.
bool forever(id object) { return std::strcmp(object->isa->name, "NSConstantString") == 0; }

void end(id object) {
  for (Class cls = object->isa; cls; cls = cls->superclass) {
    if (const IMP destruct = table_of(cls).destruct)
      reinterpret_cast<void (*)(id, SEL)>(destruct)(object, nullptr);
  }
  Header* begin = &header(object);
  begin->~Header();
  std::free(begin);
  --live;
}

// The pools of a thread, one list: a null marks where a pool begins.
thread_local std::vector<id>* pool_list = nullptr;

}  // namespace

namespace objc_double {

Counts counts() { return {live, made, made_outside, without_pool}; }
Inside::Inside() { ++inside; }
Inside::~Inside() { --inside; }
bool is_inside() { return inside > 0; }
void count_made() {
  ++made;
  if (!inside) ++made_outside;
}

id make(Class cls) {
  need(cls);
  auto* memory =
      static_cast<std::byte*>(std::calloc(1, sizeof(Header) + static_cast<size_t>(cls->instance_size)));
  new (memory) Header;
  const id object = reinterpret_cast<id>(memory + sizeof(Header));
  object->isa = cls;
  std::vector<Class> chain;
  for (Class c = cls; c; c = c->superclass) chain.push_back(c);
  for (auto it = chain.rbegin(); it != chain.rend(); ++it)
    if (const IMP construct = table_of(*it).construct)
      reinterpret_cast<id (*)(id, SEL)>(construct)(object, nullptr);
  ++live;
  count_made();
  return object;
}

}  // namespace objc_double

extern "C" {

void __objc_exec_class(objc_module* module) {
  Runtime& r = runtime();
  std::lock_guard lock(r.mutex);
  objc_symtab& table = *module->symtab;
  for (objc_selector* s = table.selector; s && s->name; ++s)
    s->name = reinterpret_cast<const char*>(number_of(s->name));
  for (unsigned i = 0; i < table.classes; ++i) {
    const auto cls = static_cast<Class>(table.defined[i]);
    if (!r.classes.emplace(cls->name, cls).second) stop(std::string("two classes named ") + cls->name);
  }
  for (unsigned i = 0; i < table.categories; ++i) {
    const auto* category = static_cast<objc_category*>(table.defined[table.classes + i]);
    if (category->instance_methods || category->class_methods) stop("categories are not supported");
  }
}

IMP objc_msg_lookup(id object, SEL selector) {
  if (!object) return reinterpret_cast<IMP>(nothing);
  return find_or_stop(object->isa, selector);
}
IMP objc_msg_lookup_stret(id object, SEL selector) {
  if (!object) stop("a message with a struct for an answer went to nil");
  return objc_msg_lookup(object, selector);
}
IMP objc_msg_lookup_super(objc_super* super, SEL selector) { return find_or_stop(super->cls, selector); }

bool objc_double_responds(id object, SEL selector) { return object && find(object->isa, selector); }
bool objc_double_is_kind(id object, Class wanted) {
  for (Class c = object ? object->isa : nullptr; c; c = c->superclass)
    if (c == wanted) return true;
  return false;
}
Class objc_double_class(id object) { return object->isa; }
id objc_double_make(Class cls) { return objc_double::make(cls); }
void objc_double_end(id object) { end(object); }

id objc_retain(id object) {
  if (!object) return nullptr;
  if (is_block(object)) return static_cast<id>(_Block_copy(object));
  if (!forever(object)) header(object).holders.fetch_add(1, std::memory_order_relaxed);
  return object;
}
id objc_retainBlock(id block) { return block ? static_cast<id>(_Block_copy(block)) : nullptr; }

void objc_release(id object) {
  if (!object) return;
  if (is_block(object)) {
    release_block(object);
    return;
  }
  if (forever(object)) return;
  const long before = header(object).holders.fetch_sub(1, std::memory_order_acq_rel);
  if (before < 1)
    stop(std::string("an object of the class ") + object->isa->name + " was released too often");
  if (before > 1) return;
  static objc_selector dealloc{reinterpret_cast<const char*>([] {
                                 std::lock_guard lock(runtime().mutex);
                                 return number_of("dealloc");
                               }()),
                               nullptr};
  reinterpret_cast<void (*)(id, SEL)>(find_or_stop(object->isa, &dealloc))(object, &dealloc);
}

id objc_autorelease(id object) {
  if (!object) return nullptr;
  if (!pool_list) {
    if (is_block(object) || !forever(object)) ++without_pool;
    return object;  // as on a Mac: nobody releases it
  }
  const objc_double::Inside own;
  pool_list->push_back(object);
  return object;
}

void* objc_autoreleasePoolPush() {
  const objc_double::Inside own;
  if (!pool_list) pool_list = new std::vector<id>;
  pool_list->push_back(nullptr);
  return reinterpret_cast<void*>(pool_list->size());
}
void objc_autoreleasePoolPop(void* pool) {
  const auto size = reinterpret_cast<size_t>(pool) - 1;
  while (pool_list->size() > size) {
    const id object = pool_list->back();
    pool_list->pop_back();
    objc_release(object);
  }
  if (size > 0) return;
  delete pool_list;
  pool_list = nullptr;
}

id objc_autoreleaseReturnValue(id object) { return objc_autorelease(object); }
id objc_retainAutorelease(id object) { return objc_autorelease(objc_retain(object)); }
id objc_retainAutoreleaseReturnValue(id object) { return objc_retainAutorelease(object); }
id objc_retainAutoreleasedReturnValue(id object) { return objc_retain(object); }
id objc_unsafeClaimAutoreleasedReturnValue(id object) { return object; }
void objc_storeStrong(id* place, id object) {
  const id old = *place;
  *place = objc_retain(object);
  objc_release(old);
}

// Properties. One lock for the atomic ones is enough for tests.
id objc_getProperty(id object, SEL, ptrdiff_t offset, bool atomic) {
  id* place = reinterpret_cast<id*>(reinterpret_cast<char*>(object) + offset);
  if (!atomic) return *place;
  std::lock_guard lock(runtime().mutex);
  return objc_retainAutorelease(*place);
}
void objc_setProperty(id object, SEL, ptrdiff_t offset, id value, bool, signed char copies) {
  static objc_selector copy{reinterpret_cast<const char*>([] {
                              std::lock_guard lock(runtime().mutex);
                              return number_of("copy");
                            }()),
                            nullptr};
  id kept = value;
  if (value && copies && !is_block(value))
    kept = reinterpret_cast<id (*)(id, SEL)>(find_or_stop(value->isa, &copy))(value, &copy);
  else
    kept = objc_retain(value);
  std::lock_guard lock(runtime().mutex);
  id* place = reinterpret_cast<id*>(reinterpret_cast<char*>(object) + offset);
  const id old = *place;
  *place = kept;
  objc_release(old);
}
void objc_enumerationMutation(id) { stop("a collection was changed while it was walked"); }
}
