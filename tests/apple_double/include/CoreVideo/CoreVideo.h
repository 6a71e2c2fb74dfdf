// CoreVideo's pixel buffers, as far as src/coreml uses them, and the few types of CoreFoundation around them.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

typedef const void* CFTypeRef;
typedef const struct __CFString* CFStringRef;
typedef const struct __CFDictionary* CFDictionaryRef;
typedef const struct __CFAllocator* CFAllocatorRef;
typedef uint32_t OSType;
typedef int32_t CVReturn;
typedef uint64_t CVOptionFlags;
typedef CVOptionFlags CVPixelBufferLockFlags;
typedef struct __CVBuffer* CVBufferRef;
typedef CVBufferRef CVImageBufferRef;
typedef CVImageBufferRef CVPixelBufferRef;

enum : CVReturn { kCVReturnSuccess = 0, kCVReturnInvalidArgument = -6661, kCVReturnInvalidSize = -6681 };
enum : OSType { kCVPixelFormatType_OneComponent16Half = 0x4c303068 };
enum : CVPixelBufferLockFlags { kCVPixelBufferLock_ReadOnly = 0x00000001 };

extern const CFAllocatorRef kCFAllocatorDefault;
extern const CFStringRef kCVPixelBufferIOSurfacePropertiesKey;

CVReturn CVPixelBufferCreate(CFAllocatorRef allocator, size_t width, size_t height, OSType pixelFormatType,
                             CFDictionaryRef pixelBufferAttributes, CVPixelBufferRef* pixelBufferOut);
CVPixelBufferRef CVPixelBufferRetain(CVPixelBufferRef texture);
void CVPixelBufferRelease(CVPixelBufferRef texture);
CVReturn CVPixelBufferLockBaseAddress(CVPixelBufferRef pixelBuffer, CVPixelBufferLockFlags lockFlags);
CVReturn CVPixelBufferUnlockBaseAddress(CVPixelBufferRef pixelBuffer, CVPixelBufferLockFlags unlockFlags);
void* CVPixelBufferGetBaseAddress(CVPixelBufferRef pixelBuffer);
size_t CVPixelBufferGetBytesPerRow(CVPixelBufferRef pixelBuffer);
size_t CVPixelBufferGetWidth(CVPixelBufferRef pixelBuffer);
size_t CVPixelBufferGetHeight(CVPixelBufferRef pixelBuffer);
}
