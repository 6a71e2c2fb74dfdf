// Quality of service of threads.
#pragma once

extern "C" {
typedef unsigned int qos_class_t;
enum : qos_class_t {
  QOS_CLASS_USER_INTERACTIVE = 0x21,
  QOS_CLASS_USER_INITIATED = 0x19,
  QOS_CLASS_UTILITY = 0x11
};
int pthread_set_qos_class_self_np(qos_class_t qos_class, int relative_priority);
}
