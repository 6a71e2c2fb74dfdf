// The two roads of resolve(): a repository of the hub, and a file of any other host.
#pragma once

#include "hub/resolve.h"

namespace anemone::hub {

Resolved resolve_repository(const RepoName& name, const ResolveOptions& options);
Resolved resolve_url(const FileUrl& url, const ResolveOptions& options);

}  // namespace anemone::hub
